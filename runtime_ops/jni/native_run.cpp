// org.dafmobile.core.NativeRun: a run of the session for a Java host. Every error crosses as a Java
// DafException with the same text that the host tool prints.

#include <jni.h>

#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "runtime_ops/jni/java_text.h"
#include "runtime_ops/kernels/kernels.h"
#include "runtime_ops/session/error.h"
#include "runtime_ops/session/run.h"
#include "runtime_ops/session/session.h"

namespace daf {
namespace {

constexpr const char* kNativeRun = "org/dafmobile/core/NativeRun";
constexpr const char* kCallbacks = "org/dafmobile/core/NativeRun$Callbacks";

// Found once: threads of a host may have class loaders that do not see the app's classes.
jclass native_run_class = nullptr;
jmethodID new_error, on_line, should_stop;

// What other threads may reach of a run.
class SharedRun {
 public:
  void set_session(TrainingSession* session) {
    const std::lock_guard lock(mutex_);
    session_ = session;
  }

  int64_t trim(int64_t budget_bytes) {
    const std::lock_guard lock(mutex_);
    return session_ == nullptr ? -1 : session_->trim(budget_bytes);
  }

  void note(HostEvent event) {
    const std::lock_guard lock(mutex_);
    notes_.push_back(std::move(event));
  }

  std::vector<HostEvent> take_notes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(notes_, {});
  }

 private:
  std::mutex mutex_;
  TrainingSession* session_ = nullptr;
  std::vector<HostEvent> notes_;
};

SharedRun* run_of(jlong handle) { return reinterpret_cast<SharedRun*>(handle); }

void throw_error(JNIEnv* env, Exit exit, const std::string& message) {
  if (env->ExceptionCheck()) return;  // the cause, and more to the point
  const LocalRef text(env, to_java(env, message));
  if (text.get() == nullptr) return;  // Java is out of memory: that is what it will see
  const LocalRef error(env, env->CallStaticObjectMethod(native_run_class, new_error,
                                                        static_cast<jint>(exit), text.get()));
  if (!env->ExceptionCheck()) env->Throw(static_cast<jthrowable>(error.get()));
}

// Calls `body`; what it throws becomes a Java exception, and `fallback` is returned.
template <class Result, class Body>
Result guarded(JNIEnv* env, Result fallback, Body body) {
  try {
    return body();
  } catch (const DafError& error) {
    throw_error(env, error.exit(), error.what());
  } catch (const std::bad_alloc&) {
    throw_error(env, Exit::kDevice, "the device is out of memory; use a smaller model or batch");
  } catch (const std::exception& error) {
    throw_error(env, Exit::kDevice, std::string("training failed unexpectedly: ") + error.what());
  }
  return fallback;
}

jbyteArray native_version(JNIEnv* env, jclass) {
  return guarded<jbyteArray>(env, nullptr, [&] { return to_java(env, DAF_VERSION); });
}

jlong native_open(JNIEnv* env, jclass) {
  return guarded<jlong>(env, 0, [] { return reinterpret_cast<jlong>(new SharedRun); });
}

jbyteArray native_run(JNIEnv* env, jclass, jlong handle, jbyteArray request, jint threads,
                      jobject callbacks) {
  return guarded<jbyteArray>(env, nullptr, [&] {
    SharedRun* const shared = run_of(handle);
    if (threads > 0) set_threads(threads);
    RunHost host;
    host.device_kind = "app";
    // The store calls on_line in the middle of an operator, through which nothing may be thrown: an
    // exception of the host stays pending, no more Java is called, and the run stops.
    host.on_line = [&](const std::string& line) {
      if (env->ExceptionCheck()) return;
      const LocalRef text(env, to_java(env, line));
      if (text.get() != nullptr) env->CallVoidMethod(callbacks, on_line, text.get());
    };
    host.should_stop = [&] {
      return env->ExceptionCheck() || env->CallBooleanMethod(callbacks, should_stop);
    };
    host.on_session = [&](TrainingSession* session) { shared->set_session(session); };
    host.take_events = [&] { return shared->take_notes(); };
    const std::string footer = run(RunRequest::parse(to_string(env, request)), host);
    return env->ExceptionCheck() ? nullptr : to_java(env, footer);
  });
}

jlong native_trim(JNIEnv* env, jclass, jlong handle, jlong budget_bytes) {
  return guarded<jlong>(env, -1, [&] { return run_of(handle)->trim(budget_bytes); });
}

void native_note(JNIEnv* env, jclass, jlong handle, jbyteArray event, jbyteArray fields) {
  guarded<bool>(env, false, [&] {
    const Json document = Json::parse(to_string(env, fields));
    if (document.object() == nullptr) throw FormatError("an event's fields are not an object");
    run_of(handle)->note({to_string(env, event), *document.object()});
    return true;
  });
}

void native_close(JNIEnv*, jclass, jlong handle) { delete run_of(handle); }

bool register_methods(JNIEnv* env) {
  const LocalRef own(env, env->FindClass(kNativeRun));
  if (own.get() == nullptr) return false;
  native_run_class = static_cast<jclass>(env->NewGlobalRef(own.get()));
  new_error = env->GetStaticMethodID(native_run_class, "newError",
                                     "(I[B)Lorg/dafmobile/core/DafException;");
  if (new_error == nullptr) return false;
  const LocalRef callbacks(env, env->FindClass(kCallbacks));
  if (callbacks.get() == nullptr) return false;
  on_line = env->GetMethodID(callbacks.get(), "onLine", "([B)V");
  if (on_line == nullptr) return false;
  should_stop = env->GetMethodID(callbacks.get(), "shouldStop", "()Z");
  if (should_stop == nullptr) return false;
  char run_signature[] = "(J[BILorg/dafmobile/core/NativeRun$Callbacks;)[B";
  const JNINativeMethod methods[] = {
      {const_cast<char*>("nativeVersion"), const_cast<char*>("()[B"),
       reinterpret_cast<void*>(native_version)},
      {const_cast<char*>("nativeOpen"), const_cast<char*>("()J"),
       reinterpret_cast<void*>(native_open)},
      {const_cast<char*>("nativeRun"), run_signature, reinterpret_cast<void*>(native_run)},
      {const_cast<char*>("nativeTrim"), const_cast<char*>("(JJ)J"),
       reinterpret_cast<void*>(native_trim)},
      {const_cast<char*>("nativeNote"), const_cast<char*>("(J[B[B)V"),
       reinterpret_cast<void*>(native_note)},
      {const_cast<char*>("nativeClose"), const_cast<char*>("(J)V"),
       reinterpret_cast<void*>(native_close)},
  };
  return env->RegisterNatives(native_run_class, methods, std::size(methods)) == JNI_OK;
}

}  // namespace
}  // namespace daf

extern "C" JNIEXPORT jint JNI_OnLoad(JavaVM* vm, void*) {
  void* env = nullptr;
  if (vm->GetEnv(&env, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  return daf::register_methods(static_cast<JNIEnv*>(env)) ? JNI_VERSION_1_6 : JNI_ERR;
}
