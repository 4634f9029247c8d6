/// The answer to a channel request, version 1: `config/schemas/channel-reply.schema.json`.
package struct ChannelReply: Hashable, Sendable {
  /// A channel in a list.
  package struct Listed: Hashable, Sendable {
    package var channel: ChannelID
    /// nil if the registry does not know the channel.
    package var name: ChannelName?

    package init(channel: ChannelID, name: ChannelName?) {
      self.channel = channel
      self.name = name
    }
  }

  /// The kind of failure, for programs.
  package enum ErrorKind: String, CaseIterable, Sendable {
    /// The request is invalid; `detail` names field and rule. The original is in `push.dead`.
    case invalid
    /// APNs refused; `status` and `reason` say how.
    case refused
    /// The name has another storage policy, or (create) a channel already.
    case conflict
    /// The app has its maximum of channels.
    case limit
    /// There is no such name or channel.
    case notFound = "not_found"
    /// APNs or Redis was unavailable for an hour: neither done nor refused. Or the request may be what ends workers.
    case unavailable
  }

  package struct Failure: Hashable, Sendable {
    package var kind: ErrorKind
    package var status: UInt16?
    package var reason: String?
    package var detail: String

    package init(_ kind: ErrorKind, status: UInt16? = nil, reason: String? = nil, detail: String) {
      self.kind = kind
      self.status = status
      self.reason = reason
      self.detail = detail
    }
  }

  package var id: String?
  package var action: String?
  package var app: String?
  package var environment: APNsEnvironment?
  package var channel: ChannelID?
  package var name: ChannelName?
  package var storage: StoragePolicy?
  /// This request, or an earlier delivery of it, made the channel.
  package var isCreated: Bool?
  package var channels: [Listed]?
  /// `apns-request-id` of the request to APNs that decided.
  package var requestID: UUIDValue?
  package var failure: Failure?

  package init(to job: ChannelJob) {
    id = job.id
    action = job.action.rawValue
    app = job.scope.app
    environment = job.scope.environment
  }

  package init(to fault: ChannelJobFault) {
    id = fault.id
    action = fault.action
    app = fault.app
    environment = fault.environment
    failure = Failure(.invalid, detail: fault.error.detail)
  }

  /// `channel.<environment>.<app>`, at the results exchange. The first word is no outcome, so bindings such as `accepted.#` or
  /// `*.production.<app>` for outcomes do not overlap with `channel.#` for replies.
  package var routingKey: String {
    "channel.\((environment ?? .production).name).\(app ?? "unknown")"
  }

  /// The message's body.
  package var json: [UInt8] {
    var out: [UInt8] = []
    out.append(text: "{\"version\":1,\"id\":")
    ChannelReply.append(id, to: &out)
    out.append(text: ",\"action\":")
    ChannelReply.append(action, to: &out)
    out.append(text: ",\"app\":")
    ChannelReply.append(app, to: &out)
    out.append(text: ",\"environment\":")
    ChannelReply.append(environment?.name, to: &out)
    out.append(text: failure == nil ? ",\"ok\":true" : ",\"ok\":false")
    if let channel { ChannelReply.member("channel", channel.text, to: &out) }
    if let name { ChannelReply.member("name", name.text, to: &out) }
    if let storage { ChannelReply.member("storage", storage.name, to: &out) }
    if let isCreated { out.append(text: isCreated ? ",\"created\":true" : ",\"created\":false") }
    if let channels {
      out.append(text: ",\"channels\":[")
      for (index, listed) in channels.enumerated() {
        out.append(text: index == 0 ? "{\"channel\":" : ",{\"channel\":")
        ChannelReply.append(listed.channel.text, to: &out)
        out.append(text: ",\"name\":")
        ChannelReply.append(listed.name?.text, to: &out)
        out.append(ASCII.closeBrace)
      }
      out.append(ASCII.closeBracket)
    }
    if let requestID { ChannelReply.member("apns_request_id", requestID.text, to: &out) }
    if let failure {
      out.append(text: ",\"error\":{\"kind\":")
      ChannelReply.append(failure.kind.rawValue, to: &out)
      out.append(text: ",\"status\":")
      if let status = failure.status { out.append(decimal: Int64(status)) } else { out.append(text: "null") }
      out.append(text: ",\"reason\":")
      ChannelReply.append(failure.reason, to: &out)
      out.append(text: ",\"detail\":")
      ChannelReply.append(failure.detail, to: &out)
      out.append(ASCII.closeBrace)
    }
    out.append(ASCII.closeBrace)
    return out
  }

  private static func member(_ name: String, _ value: String, to out: inout [UInt8]) {
    out.append(text: ",\"\(name)\":")
    append(value, to: &out)
  }

  private static func append(_ text: String?, to out: inout [UInt8]) {
    guard let text else { return out.append(text: "null") }
    out.append(addingCapacity: JSONText.countMaximum(text.utf8.count)) { $0.append(jsonString: text.utf8.span) }
  }
}

extension ChannelReply.Failure {
  /// The answer for a failure of the registry.
  package init(_ failure: ChannelRegistryFailure) {
    let detail = failure.description
    switch failure {
    case .storageDiffers, .exists: self.init(.conflict, detail: detail)
    case .unknownName: self.init(.notFound, detail: detail)
    case .full: self.init(.limit, detail: detail)
    case .redis, .timedOut: self.init(.unavailable, detail: detail)
    case .apns(let failure): self.init(failure)
    }
  }

  /// The answer for a failure of channel management.
  package init(_ failure: ChannelFailure) {
    let detail = failure.description
    let kind: ChannelReply.ErrorKind =
      failure.isLimitReached ? .limit : failure.isUnknownChannel ? .notFound : .refused
    switch failure.kind {
    case .refused(let status, let reason): self.init(kind, status: status, reason: reason?.name, detail: detail)
    case .notUnderstood(let status, _): self.init(.refused, status: status, detail: detail)
    case .noCredential: self.init(.invalid, detail: detail)
    case .unanswered, .unreachable, .noProviderToken, .revoked, .tooManyWaiting, .closed:
      self.init(.unavailable, detail: detail)
    }
  }
}
