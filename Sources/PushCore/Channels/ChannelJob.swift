/// A checked request from the queue `push.channels`, version 1: how producers that do not use Swift manage channels.
package struct ChannelJob: Hashable, Sendable {
  package enum Action: String, CaseIterable, Sendable {
    case create, ensure, read, delete, list
  }

  /// The request's action with all that it needs.
  package enum Task: Hashable, Sendable {
    /// Create a channel. nil: named after the request.
    case create(ChannelName?, StoragePolicy)
    case ensure(ChannelName, StoragePolicy)
    case read(Subject)
    case delete(Subject)
    case list

    /// Carrying it out twice would have another result: its answer is remembered.
    package var changesSomething: Bool {
      switch self {
      case .create, .ensure, .delete: true
      case .read, .list: false
      }
    }
  }

  /// A channel by its id, or by its name in the registry.
  package enum Subject: Hashable, Sendable {
    case channel(ChannelID)
    case name(ChannelName)
  }

  /// 1–128 bytes; the idempotency key.
  package var id: String
  package var scope: AppScope
  package var task: Task

  package init(id: String, scope: AppScope, task: Task) {
    self.id = id
    self.scope = scope
    self.task = task
  }

  package var action: Action {
    switch task {
    case .create: .create
    case .ensure: .ensure
    case .read: .read
    case .delete: .delete
    case .list: .list
    }
  }
}

/// An invalid request, with the fields that could be read for the answer.
package struct ChannelJobFault: Error, Hashable, Sendable {
  package var error: JobError
  package var id: String?
  package var action: String?
  package var app: String?
  package var environment: APNsEnvironment?

  package init(
    error: JobError, id: String? = nil, action: String? = nil, app: String? = nil,
    environment: APNsEnvironment? = nil
  ) {
    self.error = error
    self.id = id
    self.action = action
    self.app = app
    self.environment = environment
  }
}
