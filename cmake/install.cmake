# Headers, library, program and epilogues, and what find_package(postlude) and pkg-config read.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS postlude EXPORT postlude-targets)
if(TARGET postlude_cli)
  install(TARGETS postlude_cli)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/postlude DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/epilogues DESTINATION ${CMAKE_INSTALL_DATADIR}/postlude FILES_MATCHING PATTERN "*.py")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/postlude)
install(EXPORT postlude-targets NAMESPACE postlude:: DESTINATION ${package_dir})
get_target_property(postlude_type postlude TYPE)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/postlude-config.cmake.in
                              ${PROJECT_BINARY_DIR}/postlude-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/postlude-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/postlude-config.cmake ${PROJECT_BINARY_DIR}/postlude-config-version.cmake
        DESTINATION ${package_dir})

# A static library does not bring what it needs: pkg-config says so without --static then.
set(postlude_pc_private "${OpenMP_CXX_FLAGS} ${CMAKE_DL_LIBS}")
string(REPLACE ";" " " postlude_pc_private "${postlude_pc_private}")
string(REGEX REPLACE "(^| )([a-z]+)( |$)" "\\1-l\\2\\3" postlude_pc_private "${postlude_pc_private}")
set(postlude_pc_public "")
if(postlude_type STREQUAL "STATIC_LIBRARY")
  set(postlude_pc_public " ${postlude_pc_private}")
endif()
# Wherever `cmake --install --prefix` puts it.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE postlude_pc_prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/postlude.pc.in ${PROJECT_BINARY_DIR}/postlude.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/postlude.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
