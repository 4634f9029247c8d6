/// The place of the activity's id in a start's `attributes`, so that the app knows which activity its update token is
/// for.
package struct ActivityIDAttribute: Hashable, Sendable, CustomStringConvertible {
  /// Keys from the outermost one: at least one.
  package let path: [String]

  private static let depthMaximum = 8
  private static let bytesMaximum = 128

  /// - Parameter text: keys separated by dots: `pushwoosh.activityId`. nil: one is empty, or there are more than 8, or
  ///   more than 128 bytes.
  package init?(_ text: String) {
    let path = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    guard text.utf8.count <= ActivityIDAttribute.bytesMaximum, path.count <= ActivityIDAttribute.depthMaximum,
      path.allSatisfy({ !$0.isEmpty })
    else { return nil }
    self.path = path
  }

  package var description: String { path.joined(separator: ".") }
}
