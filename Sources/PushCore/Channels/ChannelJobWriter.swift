/// Writes requests for `push.channels`, version 1.
package enum ChannelJobWriter {
  /// Appends the body of a request that ensures that a name has a channel.
  package static func appendEnsure(
    _ name: ChannelName, _ storage: StoragePolicy, id: String, in scope: AppScope, to output: inout [UInt8]
  ) {
    output.append(text: "{\"version\":1,\"id\":")
    append(string: id, to: &output)
    output.append(text: ",\"action\":\"ensure\",\"app\":")
    append(string: scope.app, to: &output)
    output.append(text: ",\"environment\":\"\(scope.environment.name)\",\"name\":")
    append(string: name.text, to: &output)
    output.append(text: ",\"storage\":\"\(storage.name)\"}")
  }

  private static func append(string text: String, to output: inout [UInt8]) {
    output.append(addingCapacity: JSONText.countMaximum(text.utf8.count)) { $0.append(jsonString: text.utf8.span) }
  }
}
