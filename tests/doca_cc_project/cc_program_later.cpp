// The same program in the later dialect, as C++.
#define DOCA_CC_LATER_DIALECT
#include "cc_program.c"
