/// Herald itself.
package enum Herald {
  /// Semantic version of this build.
  package static let version = "0.1.0"
}
