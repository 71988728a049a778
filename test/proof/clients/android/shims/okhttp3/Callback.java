package okhttp3;

import java.io.IOException;

public interface Callback {
	void onFailure(Call call, IOException error);

	void onResponse(Call call, Response response) throws IOException;
}
