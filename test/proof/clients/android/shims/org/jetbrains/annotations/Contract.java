package org.jetbrains.annotations;

public @interface Contract {
	boolean pure() default false;
}
