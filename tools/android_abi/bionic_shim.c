/* What bionic has and glibc does not, as far as the libraries of the check use it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int __android_log_vprint(int priority, const char* tag, const char* format, va_list values) {
  (void)priority;
  fprintf(stderr, "%s: ", tag);
  vfprintf(stderr, format, values);
  return fputc('\n', stderr);
}
int __android_log_print(int priority, const char* tag, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int result = __android_log_vprint(priority, tag, format, values);
  va_end(values);
  return result;
}
int __android_log_write(int priority, const char* tag, const char* text) {
  return __android_log_print(priority, tag, "%s", text);
}
void __android_log_assert(const char* condition, const char* tag, const char* format, ...) {
  fprintf(stderr, "%s: %s\n", tag, condition ? condition : format);
  abort();
}
void android_set_abort_message(const char* text) { fprintf(stderr, "abort: %s\n", text); }
int* __errno(void) { return __errno_location(); }
void __gcov_dump(void) {}
void __gcov_flush(void) {}
char* __gnu_strerror_r(int number, char* text, size_t size) {
  return strerror_r(number, text, size);
}
char* __strchr_chk(const char* text, int c, size_t size) { return (void)size, strchr(text, c); }
char* __strrchr_chk(const char* text, int c, size_t size) { return (void)size, strrchr(text, c); }
size_t __strlen_chk(const char* text, size_t size) { return (void)size, strlen(text); }
ssize_t __write_chk(int fd, const void* data, size_t n, size_t size) {
  return (void)size, write(fd, data, n);
}
int __system_property_get(const char* name, char* value) { return (void)name, *value = 0; }

/* Streams of bionic are elements of an array: those that are used are led to glibc's. */
enum { kFileBytes = 152 };
char __sF[3 * kFileBytes];
static FILE* real(FILE* file) {
  const char* at = (const char*)file;
  if (at < __sF || at >= __sF + sizeof __sF) return file;
  return at < __sF + kFileBytes ? stdin : at < __sF + 2 * kFileBytes ? stdout : stderr;
}
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
int vfprintf(FILE* file, const char* format, va_list values) {
  return NEXT(vfprintf)(real(file), format, values);
}
int fprintf(FILE* file, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int result = vfprintf(file, format, values);
  va_end(values);
  return result;
}
int fflush(FILE* file) { return NEXT(fflush)(real(file)); }
int fputs(const char* text, FILE* file) { return NEXT(fputs)(text, real(file)); }
int fputc(int c, FILE* file) { return NEXT(fputc)(c, real(file)); }
size_t fwrite(const void* data, size_t size, size_t n, FILE* file) {
  return NEXT(fwrite)(data, size, n, real(file));
}
