/// Everything that is wrong with a configuration, reported at once.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
  /// One problem: where it is, which option, what is wrong.
  package struct Problem: Equatable, Sendable, CustomStringConvertible {
    /// `herald.yaml:12`, a variable's name or a flag; empty if options from several places conflict.
    package var origin: String
    /// The option's path; empty where no option is concerned.
    package var path: String
    package var text: String

    package var description: String {
      [origin, path, text].filter { !$0.isEmpty }.joined(separator: ": ")
    }
  }

  /// At least one, in the order of the file.
  package var problems: [Problem]

  /// A line for each problem.
  package var description: String {
    problems.map(\.description).joined(separator: "\n")
  }
}
