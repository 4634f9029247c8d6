package import PushCore

/// Writes the headers of requests to one host, reusing its memory.
///
/// In a connection's first request HPACK indexes the names of headers whose values always differ. Later requests refer to those names and
/// do not change the table, so topics and push types stay in it. nghttp2 never indexes `:path` and `authorization`.
package struct APNsRequestWriter: ~Copyable {
  /// The number of headers that all requests share: `:method`, `:scheme`, `:authority`.
  private static let sharedCount = 3

  package private(set) var headers = HTTP2HeaderList()
  /// `:path` and `apns-id` are composed here.
  private var text: [UInt8] = []

  /// - Parameter authority: the host, with its port unless that is 443.
  package init(authority: String) {
    text.reserveCapacity(512)
    let name = Array(authority.utf8)
    headers.append(.method, "POST")
    headers.append(.scheme, "https")
    headers.append(.authority, name.span)
  }

  /// The headers of `POST /3/device/<token>`.
  /// - Parameters:
  ///   - target: which of the job's tokens.
  ///   - authorization: `bearer <provider token>`; empty with a certificate.
  ///   - isFirst: it is the connection's first request.
  package mutating func writeDevice(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, authorization: [UInt8], isFirst: Bool
  ) {
    let bytes = job.bytes.span
    start("/3/device/", bytes.extracting(job.targets[target].range), authorization)
    headers.append(.apnsTopic, bytes.extracting(job.topic.range))
    headers.append(.apnsPushType, bytes.extracting(job.pushTypeName.range))
    text.removeAll(keepingCapacity: true)
    apnsID.write(to: &text)
    appendText(.apnsID, isIndexed: isFirst)
    finish(priority: job.priority, expiration: job.expiration, isFirst: isFirst)
    if !job.collapseID.isEmpty {
      headers.append(.apnsCollapseID, bytes.extracting(job.collapseID.range), isIndexed: isFirst)
    }
  }

  /// The headers of `POST /4/broadcasts/apps/<bundle id>`; the target is the channel. `apns-priority`, which APNs demands
  /// The headers of `POST /4/broadcasts/apps/<bundle id>`; the target is the channel. APNs requires `apns-priority` here; it is 10 if the
  /// job has none.
  /// - Parameter expiration: `apns-expiration`, which APNs requires: from the job, or from its channel's storage policy.
  package mutating func writeBroadcast(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, authorization: [UInt8], expiration: Int64, isFirst: Bool
  ) {
    let bytes = job.bytes.span
    start("/4/broadcasts/apps/", bytes.extracting(job.app.range), authorization)
    headers.append(.apnsChannelID, bytes.extracting(job.targets[target].range), isIndexed: isFirst)
    headers.append(.apnsPushType, bytes.extracting(job.pushTypeName.range))
    text.removeAll(keepingCapacity: true)
    apnsID.write(to: &text)
    appendText(.apnsRequestID, isIndexed: isFirst)
    finish(priority: job.priority ?? 10, expiration: expiration, isFirst: isFirst)
  }

  private mutating func start(_ prefix: StaticString, _ rest: Span<UInt8>, _ authorization: [UInt8]) {
    headers.truncate(to: APNsRequestWriter.sharedCount)
    text.removeAll(keepingCapacity: true)
    prefix.withUTF8Buffer { unsafe text.append(contentsOf: $0) }
    for index in rest.indices { text.append(rest[index]) }
    appendText(.path, isIndexed: true)
    if !authorization.isEmpty { headers.append(.authorization, authorization.span) }
  }

  private mutating func appendText(_ name: HTTP2HeaderName, isIndexed: Bool) {
    let value = text
    headers.append(name, value.span, isIndexed: isIndexed)
  }

  private mutating func finish(priority: UInt8?, expiration: Int64?, isFirst: Bool) {
    switch priority {
    case 10: headers.append(.apnsPriority, "10")
    case 5: headers.append(.apnsPriority, "5")
    case .some(let other): headers.append(.apnsPriority, decimal: Int(other))
    case nil: break
    }
    if let expiration {
      headers.append(.apnsExpiration, decimal: Int(expiration), isIndexed: isFirst)
    }
  }
}
