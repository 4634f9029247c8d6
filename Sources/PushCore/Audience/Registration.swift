/// A message of the queue `push.registrations`, version 1, as checked: what an app's server tells of a device or an activity.
package struct Registration: Hashable, Sendable {
  package enum Subject: Hashable, Sendable {
    case device(DeviceRegistration)
    case activity(ActivityRegistration)
    case forget(ForgottenSubject)
  }

  package var scope: AppScope
  /// When it was so, Unix milliseconds.
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

/// What a registration says of one field of a device.
package enum FieldChange<Value: Hashable & Sendable>: Hashable, Sendable {
  /// It was absent: the field stays as it is.
  case keep
  /// It was null.
  case remove
  case set(Value)
}

/// What a registration says of a device.
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
      /// Adds to the number that is there, or to 0.
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
  /// All start tokens are removed, before `startTokens`.
  package var removesStartTokens = false
  /// By type, each once.
  package var startTokens: [StartToken] = []
  package var locale = FieldChange<String>.keep
  package var osVersion = FieldChange<OSVersion>.keep
  package var timeZone = FieldChange<String>.keep
  /// All tags are removed, before `tags`.
  package var removesTags = false
  /// By name, each once.
  package var tags: [Tag] = []
  /// Of the message's bytes: tells a repetition of this registration from another one of the same time. Only increments need it.
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
  /// nil: the activity is over on this device.
  package var token: [UInt8]?

  package init(device: String, activity: String, token: [UInt8]?) {
    self.device = device
    self.activity = activity
    self.token = token
  }
}

/// Whose devices are to be forgotten.
package enum ForgottenSubject: Hashable, Sendable {
  case device(String)
  case user(String)
}
