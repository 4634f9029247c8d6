/// A checked message of the queue `push.registrations`, version 1: an app's server reports about a device or an
/// activity.
package struct Registration: Hashable, Sendable {
  package enum Subject: Hashable, Sendable {
    case device(DeviceRegistration)
    case activity(ActivityRegistration)
    case forget(ForgottenSubject)
  }

  package var scope: AppScope
  /// The time of the event, Unix milliseconds.
  package var at: Int64
  package var subject: Subject

  package init(scope: AppScope, at: Int64, subject: Subject) {
    self.scope = scope
    self.at = at
    self.subject = subject
  }

  package enum Kind: String, CaseIterable, Sendable {
    case device, activity, forget
  }

  package var kind: Kind {
    switch subject {
    case .device: .device
    case .activity: .activity
    case .forget: .forget
    }
  }
}

/// How a registration changes one field of a device.
package enum FieldChange<Value: Hashable & Sendable>: Hashable, Sendable {
  /// Absent: the field is unchanged.
  case keep
  /// Null.
  case remove
  case set(Value)
}

/// A registration's data about a device.
package struct DeviceRegistration: Hashable, Sendable {
  package struct StartToken: Hashable, Sendable {
    /// The attributes type, `*` for any.
    package var type: String
    /// nil removes it.
    package var token: [UInt8]?

    package init(type: String, token: [UInt8]?) {
      self.type = type
      self.token = token
    }
  }

  package struct Tag: Hashable, Sendable {
    package enum Change: Hashable, Sendable {
      case set(TagValue)
      case remove
      /// Adds to the existing number, or to 0.
      case increment(Double)
    }

    package var name: String
    package var change: Change

    package init(name: String, change: Change) {
      self.name = name
      self.change = change
    }
  }

  package var device: String
  package var user = FieldChange<String>.keep
  /// The alert token's bytes.
  package var token = FieldChange<[UInt8]>.keep
  /// Removes all start tokens, before `startTokens`.
  package var removesStartTokens = false
  /// By type, each once.
  package var startTokens: [StartToken] = []
  package var locale = FieldChange<String>.keep
  package var osVersion = FieldChange<OSVersion>.keep
  package var timeZone = FieldChange<String>.keep
  /// Removes all tags, before `tags`.
  package var removesTags = false
  /// By name, each once.
  package var tags: [Tag] = []
  /// A hash of the message and its id: distinguishes a redelivery from another registration with the same time. Only
  /// increments need it.
  package var fingerprint: UInt32 = 0

  package init(device: String) {
    self.device = device
  }

  package var hasIncrement: Bool {
    tags.contains { if case .increment = $0.change { true } else { false } }
  }
}

/// The update token of an activity on a device.
package struct ActivityRegistration: Hashable, Sendable {
  package var device: String
  package var activity: String
  /// nil: the activity ended on this device.
  package var token: [UInt8]?

  package init(device: String, activity: String, token: [UInt8]?) {
    self.device = device
    self.activity = activity
    self.token = token
  }
}

/// A device to forget, or a user with all devices.
package enum ForgottenSubject: Hashable, Sendable {
  case device(String)
  case user(String)

  /// Ids are equal if their bytes are.
  package static func == (left: ForgottenSubject, right: ForgottenSubject) -> Bool {
    switch (left, right) {
    case (.device(let left), .device(let right)), (.user(let left), .user(let right)): left.hasBytes(of: right)
    case (.device, _), (.user, _): false
    }
  }

  package func hash(into hasher: inout Hasher) {
    switch self {
    case .device(let id), .user(let id): hasher.combine(ByteText(id))
    }
  }
}
