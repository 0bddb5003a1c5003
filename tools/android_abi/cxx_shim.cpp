// What libc++ has, and the older one that the prebuilt ExecuTorch was linked with does not.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace std {
inline namespace __ndk1 {

to_chars_result to_chars(char* first, char* last, double value) {
  char text[40];
  int n = 0;
  for (int digits = 1; digits <= 17; ++digits) {
    n = snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, nullptr) == value) break;
  }
  if (n > last - first) return {last, errc::value_too_large};
  memcpy(first, text, static_cast<size_t>(n));
  return {first + n, errc()};
}

bad_function_call::~bad_function_call() noexcept {}

}  // namespace __ndk1
}  // namespace std
