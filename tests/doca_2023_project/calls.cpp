// The same in C++.
#include "calls.c"
