/// Writes the pages of a start for devices that cannot show the activity: alerts, made of the start's `fallback`.
package enum FallbackWriter {
  private static let payload = (open: "{\"aps\":{\"alert\":{\"title\":", middle: ",\"body\":", close: "}}}")

  /// Longest payload of an alert.
  static let payloadBytesMaximum = PushTypeRules.table[Int(PushType.alert.rawValue)].payloadBytesMaximum

  /// Bytes of the alert's payload.
  package static func payloadCount(_ job: borrowing PushJob) -> Int {
    payload.open.utf8.count + Int(job.fallback.title.count) + payload.middle.utf8.count + Int(job.fallback.body.count)
      + payload.close.utf8.count
  }

  /// The job is a start with a fallback, as it goes out.
  package static func canWrite(_ job: borrowing PushJob) -> Bool {
    !job.fallback.title.isEmpty && job.revision > 0
  }

  /// Appends the body of one page. It names the activity, so that a device is sent the start or the alert, never both. Its topic is the
  /// app, whatever the start's is.
  /// - Parameters:
  ///   - job: parsed; `canWrite` holds.
  ///   - number: among all pages of the job, whichever they are.
  ///   - ordinals: of its devices in decimal, ascending, with commas between them.
  ///   - fingerprints: of these devices (`DeviceFingerprints`); empty: they have none.
  ///   - epoch: of the ordinals; 0: none.
  package static func append(
    _ job: borrowing PushJob, number: UInt32, ordinals: [UInt8], fingerprints: [UInt8] = [], epoch: UInt64,
    to output: inout [UInt8]
  ) {
    precondition(canWrite(job), "only a start that goes out has a fallback to send")
    output.append(text: "{\"parent_id\":")
    append(string: job.id, of: job, to: &output)
    output.append(text: ",\"id\":")
    append(string: job.id, of: job, to: &output)
    output.removeLast()
    output.append(text: "/\(number)\"")
    append("app", string: job.app, of: job, to: &output)
    output.append(text: ",\"environment\":\"\(job.environment.name)\",\"push_type\":\"alert\",\"to\":")
    output.append(
      contentsOf: PageWriter.target(number: number, ordinals: ordinals, fingerprints: fingerprints, epoch: epoch))
    output.append(text: ",\"revision\":\(job.revision)")
    append("activity", string: job.activity, of: job, to: &output)
    append("credential", string: job.credential, of: job, to: &output)
    if let priority = job.priority { output.append(text: ",\"priority\":\(priority)") }
    if let expiration = job.expiration { output.append(text: ",\"expiration\":\(expiration)") }
    append("collapse_id", string: job.collapseID, of: job, to: &output)
    if !job.meta.isEmpty {
      output.append(text: ",\"meta\":")
      output.append(job.meta, of: job.bytes)
    }
    output.append(text: ",\"payload\":\(payload.open)")
    output.append(job.fallback.title, of: job.bytes)
    output.append(text: payload.middle)
    output.append(job.fallback.body, of: job.bytes)
    output.append(text: "\(payload.close)}")
  }

  /// Appends a member; nothing where the text is empty.
  private static func append(
    _ name: StaticString, string text: ByteRange, of job: borrowing PushJob, to output: inout [UInt8]
  ) {
    guard !text.isEmpty else { return }
    output.append(text: ",\"\(name)\":")
    append(string: text, of: job, to: &output)
  }

  private static func append(string text: ByteRange, of job: borrowing PushJob, to output: inout [UInt8]) {
    output.append(addingCapacity: JSONText.countMaximum(Int(text.count))) {
      $0.append(jsonString: job.bytes.span.extracting(text.range))
    }
  }
}
