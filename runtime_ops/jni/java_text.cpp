#include "runtime_ops/jni/java_text.h"

namespace daf {

std::string to_string(JNIEnv* env, jbyteArray text) {
  const jsize size = env->GetArrayLength(text);
  std::string result(static_cast<size_t>(size), '\0');
  env->GetByteArrayRegion(text, 0, size, reinterpret_cast<jbyte*>(result.data()));
  return result;
}

jbyteArray to_java(JNIEnv* env, const std::string& text) {
  const auto size = static_cast<jsize>(text.size());
  const jbyteArray bytes = env->NewByteArray(size);
  if (bytes == nullptr) return nullptr;
  env->SetByteArrayRegion(bytes, 0, size, reinterpret_cast<const jbyte*>(text.data()));
  return bytes;
}

}  // namespace daf
