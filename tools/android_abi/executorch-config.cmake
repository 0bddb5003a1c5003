# The prebuilt ExecuTorch, as find_package(executorch) would find one that was built with the NDK.
foreach(name executorch_jni c++_shared)
  add_library(prebuilt_${name} SHARED IMPORTED)
  set_target_properties(prebuilt_${name} PROPERTIES IMPORTED_LOCATION ${DAF_CHECK_FOLDER}/run/lib${name}.so)
endforeach()
add_library(cxx_shim STATIC ${CMAKE_CURRENT_LIST_DIR}/cxx_shim.cpp)

# The adapted headers first; what is appended to this list must fit its last one.
set(EXECUTORCH_INCLUDE_DIRS ${DAF_CHECK_FOLDER}/include ${DAF_CHECK_FOLDER}/parts/include)
set(EXECUTORCH_LIBRARIES prebuilt_executorch_jni cxx_shim prebuilt_c++_shared)
