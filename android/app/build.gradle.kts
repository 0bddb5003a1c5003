plugins {
    alias(libs.plugins.android.application)
}

// The one place that states the version.
val dafVersion =
    Regex("(?m)^version = \"(.+)\"").find(file("../../pyproject.toml").readText())!!.groupValues[1]

android {
    namespace = "org.dafmobile.app"
    compileSdk = libs.versions.compileSdk.get().toInt()
    ndkVersion = libs.versions.ndk.get()

    defaultConfig {
        applicationId = "org.dafmobile.app"
        minSdk = libs.versions.minSdk.get().toInt()
        targetSdk = libs.versions.targetSdk.get().toInt()
        versionCode = 1
        versionName = dafVersion

        ndk { abiFilters += listOf("arm64-v8a", "x86_64") }
        externalNativeBuild {
            cmake {
                targets += listOf("daf_jni", "daf_runner")
                val executorchDir = providers.gradleProperty("daf.executorchDir").get()
                arguments += listOf(
                    "-DANDROID_STL=c++_shared",
                    "-DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON",
                    "-DDAF_EXECUTORCH_DIR=$executorchDir",
                )
                // Without, Vulkan and OpenCL are left out.
                providers.gradleProperty("daf.gpuHeadersDir").orNull?.let { arguments += "-DDAF_GPU_HEADERS=$it" }
            }
        }
    }

    externalNativeBuild {
        cmake {
            path = file("../../CMakeLists.txt") // the same targets as on the host
            version = libs.versions.cmake.get()
        }
    }

    buildTypes {
        release {
            isMinifyEnabled = false // small, and native code calls Java by name
        }
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }

    lint {
        warningsAsErrors = true
    }
}

dependencies {
    testImplementation(libs.junit)
}
