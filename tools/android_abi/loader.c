/* Loads the runner, a library of Android's ABI, into a process of glibc, and calls it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* const library = dlopen("libdaf_check.so", RTLD_NOW | RTLD_GLOBAL);
  int (*const run)(int, char**) = library ? (int (*)(int, char**))dlsym(library, "daf_main") : NULL;
  if (run == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  return run(argc, argv);
}
