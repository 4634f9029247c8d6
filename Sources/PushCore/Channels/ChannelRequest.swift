/// One request to APNs' channel management.
package struct ChannelRequest: Hashable, Sendable {
  package enum Operation: Hashable, Sendable {
    /// Creates a channel; APNs chooses its id. Never repeated automatically: each request creates another channel.
    case create(StoragePolicy)
    /// Asks for a channel's storage policy.
    case read(ChannelID)
    /// Deletes a channel for good: its id is never reused.
    case delete(ChannelID)
    /// Asks for the ids of all channels.
    case list
  }

  package let scope: AppScope
  package let operation: Operation
  /// `apns-request-id`; nil: the sender generates one.
  package var requestID: UUIDValue?
  /// The name of the credential to use; nil: the first that serves the app in the environment.
  package let credential: String?

  package init(
    _ operation: Operation, in scope: AppScope, requestID: UUIDValue? = nil, credential: String? = nil
  ) {
    self.scope = scope
    self.operation = operation
    self.requestID = requestID
    self.credential = credential
  }
}

// MARK: - On the wire

extension ChannelRequest {
  /// Sending it twice does no harm and gives the same answer.
  package var isRepeatable: Bool {
    switch operation {
    case .create: false
    case .read, .delete, .list: true
    }
  }

  /// `:method`.
  package var method: StaticString {
    switch operation {
    case .create: "POST"
    case .read, .list: "GET"
    case .delete: "DELETE"
    }
  }

  /// `:path`.
  package var path: String {
    switch operation {
    case .create, .read, .delete: "/1/apps/\(scope.app)/channels"
    case .list: "/1/apps/\(scope.app)/all-channels"
    }
  }

  /// `apns-channel-id`; nil if the request is not about a single channel.
  package var channelID: ChannelID? {
    switch operation {
    case .read(let id), .delete(let id): id
    case .create, .list: nil
    }
  }

  /// The body, JSON; empty if there is none.
  package var body: [UInt8] {
    switch operation {
    case .create(let storage):
      Array("{\"message-storage-policy\":\(storage.rawValue),\"push-type\":\"LiveActivity\"}".utf8)
    case .read, .delete, .list: []
    }
  }

  /// The request in words: `delete channel dHN0… of com.example.app in sandbox`.
  package var text: String {
    switch operation {
    case .create: "create a channel of \(scope)"
    case .read(let id): "read channel \(id) of \(scope)"
    case .delete(let id): "delete channel \(id) of \(scope)"
    case .list: "list the channels of \(scope)"
    }
  }
}
