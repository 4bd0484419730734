/// <fcntl.h> for the tests, which are compiled without optimization: glibc's checked open(), of
/// _FORTIFY_SOURCE, cannot be.
#pragma once

#pragma push_macro("__USE_FORTIFY_LEVEL")
#undef __USE_FORTIFY_LEVEL
#define __USE_FORTIFY_LEVEL 0
#include_next <fcntl.h>
#pragma pop_macro("__USE_FORTIFY_LEVEL")
