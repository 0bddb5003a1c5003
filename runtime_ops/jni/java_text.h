// Text between C++ and Java, as byte[] of UTF-8: JNI's own strings are of another, "modified" kind,
// which has no place for a NUL or a character beyond 16 bits.
#pragma once

#include <jni.h>

#include <string>

namespace daf {

std::string to_string(JNIEnv* env, jbyteArray text);
// Null, with an exception pending, when Java is out of memory.
jbyteArray to_java(JNIEnv* env, const std::string& text);

// Calls that are made for every line must not leave their references to the end of the native call.
template <class T>
class LocalRef {
 public:
  LocalRef(JNIEnv* env, T object) : env_(env), object_(object) {}
  ~LocalRef() { env_->DeleteLocalRef(object_); }
  LocalRef(const LocalRef&) = delete;
  LocalRef& operator=(const LocalRef&) = delete;
  T get() const { return object_; }

 private:
  JNIEnv* env_;
  T object_;
};

}  // namespace daf
