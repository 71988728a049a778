package android.util;

import java.util.HashMap;

public class ArrayMap<K, V> extends HashMap<K, V> {}
