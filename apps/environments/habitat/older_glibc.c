/* What habitat-sim's wheel takes from glibc 2.38 and libstdc++ 13, for systems that have older ones (Debian 12).
   Loaded for all (RTLD_GLOBAL) before the extension, whose references older_glibc.py has made unversioned; the other
   two of the eight, fmod and fmodf, are then found in the system's own libm. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

long __isoc23_strtol(const char *text, char **end, int base) { return strtol(text, end, base); }
long long __isoc23_strtoll(const char *text, char **end, int base) { return strtoll(text, end, base); }
unsigned long __isoc23_strtoul(const char *text, char **end, int base) { return strtoul(text, end, base); }
unsigned long long __isoc23_strtoull(const char *text, char **end, int base) { return strtoull(text, end, base); }

int __isoc23_sscanf(const char *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int read = vsscanf(text, format, arguments);
  va_end(arguments);
  return read;
}

/* std::ios_base_library_init(): newer libstdc++ starts its streams here, older ones start them by themselves. */
void _ZSt21ios_base_library_initv(void) {}
