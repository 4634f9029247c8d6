/// Parses a message into a `Registration`, by `config/schemas/registration.schema.json`.
///
/// Unlike in jobs, null has a meaning: it removes. An unknown key is an error that suggests the nearest known one.
package enum RegistrationParser {
  /// - Parameters:
  ///   - messageID: of the message, where it has one: two with the same bytes and different ids are two registrations.
  ///   - now: the worker's clock, Unix milliseconds.
  package static func parse(_ bytes: [UInt8], messageID: [UInt8] = [], now: Int64) throws(JobError) -> Registration {
    guard bytes.count <= DeviceLimits.registrationBytesMaximum else { throw oversized(bytes.count) }
    var fields = RegistrationFields()
    do throws(JSONError) { try fields.scan(bytes.span) } catch { throw JobError(error, in: bytes.span) }
    if let fault = fields.fault { throw fault }
    let kind = try kind(fields)
    let at = try time(fields, now: now)
    let scope = try scope(fields)
    for key in RegistrationFields.Key.allCases where fields.seen.contains(key) && !key.goes(with: kind) {
      throw JobError(field: key.rawValue, rule: "does not go with the kind \(kind.rawValue)")
    }
    let subject: Registration.Subject =
      switch kind {
      case .device: .device(try device(fields, bytes, messageID))
      case .activity: .activity(try activity(fields))
      case .forget: .forget(try forgotten(fields))
      }
    return Registration(scope: scope, at: at, subject: subject)
  }

  /// The error for a message of this size. A dead letter with its body is written up to `Limits.deadLetterBytesMaximum`.
  package static func oversized(_ count: Int) -> JobError {
    let isKept = count <= Limits.deadLetterBytesMaximum
    return JobError(
      field: "body",
      rule: "must be at most \(DeviceLimits.registrationBytesMaximum) bytes, not \(count)"
        + (isKept ? "" : "; above \(Limits.deadLetterBytesMaximum) it is not kept"))
  }

  // MARK: - All kinds

  private static func kind(_ fields: RegistrationFields) throws(JobError) -> Registration.Kind {
    let word = try required(fields, .kind)
    guard let kind = Registration.Kind(rawValue: word) else {
      let known = Registration.Kind.allCases.map(\.rawValue).joined(separator: ", ")
      throw JobError(field: "kind", rule: "must be one of \(known), not \(JobError.describe(word))")
    }
    return kind
  }

  private static func time(_ fields: RegistrationFields, now: Int64) throws(JobError) -> Int64 {
    guard let at = fields.at else { throw JobError(field: "at", rule: "is missing") }
    guard at >= DeviceLimits.timeMinimum else {
      throw JobError(field: "at", rule: "must be Unix milliseconds of 13 digits, not \(at)")
    }
    guard at - now <= DeviceLimits.aheadMilliseconds else {
      throw JobError(
        field: "at",
        rule: "must be Unix milliseconds, at most a year ahead of the worker's clock, not \(at)")
    }
    return at
  }

  private static func scope(_ fields: RegistrationFields) throws(JobError) -> AppScope {
    let app = try required(fields, .app)
    var environment = APNsEnvironment.production
    if let word = fields.texts[.environment] {
      guard let known = APNsEnvironment.allCases.first(where: { $0.name.hasBytes(of: word) }) else {
        throw JobError(field: "environment", rule: "must be production or sandbox, not \(JobError.describe(word))")
      }
      environment = known
    }
    guard let scope = AppScope(app: app, environment: environment) else {
      throw JobError(
        field: "app",
        rule: """
          must be a bundle id: letters, digits, dots and hyphens, 1 to \(Limits.appBytesMaximum), \
          not "\(JobError.describe(app))"
          """)
    }
    return scope
  }

  private static func required(_ fields: RegistrationFields, _ key: RegistrationFields.Key) throws(JobError) -> String {
    guard let text = fields.texts[key] else { throw JobError(field: key.rawValue, rule: "is missing") }
    return text
  }

  /// An id from outside.
  private static func checked(_ id: String, _ key: RegistrationFields.Key) throws(JobError) -> String {
    if let rule = NameText.fault(id) { throw JobError(field: key.rawValue, rule: rule) }
    return id
  }

  // MARK: - Kinds

  private static func device(
    _ fields: RegistrationFields, _ bytes: [UInt8], _ messageID: [UInt8]
  ) throws(JobError) -> DeviceRegistration {
    var device = DeviceRegistration(device: try checked(try required(fields, .device), .device))
    device.user = try change(fields, .user) { text throws(JobError) in try checked(text, .user) }
    device.token = try change(fields, .token) { text throws(JobError) in try RegistrationFields.token(text, "token") }
    device.locale = try change(fields, .locale) { text throws(JobError) in
      guard LocaleText.canonical(text) != nil else { throw wrong(.locale, LocaleText.rule, text) }
      return String(decoding: text.utf8.map { $0 == UInt8(ascii: "_") ? ASCII.minus : $0 }, as: UTF8.self)
    }
    device.osVersion = try change(fields, .osVersion) { text throws(JobError) in
      guard let version = OSVersion(text: text) else { throw wrong(.osVersion, OSVersion.rule, text) }
      return version
    }
    device.timeZone = try change(fields, .timeZone) { text throws(JobError) in
      guard isTimeZone(text) else {
        throw wrong(
          .timeZone,
          "must be a name such as Europe/Rome, 1 to \(DeviceLimits.timeZoneBytesMaximum) letters, digits, / _ + and -",
          text)
      }
      return text
    }
    device.removesStartTokens = fields.nulls.contains(.pushToStart)
    device.startTokens = fields.startTokens
    device.removesTags = fields.nulls.contains(.tags)
    device.tags = fields.tags
    if device.hasIncrement {
      var hash = SipHash128(key0: 0, key1: 0)
      hash.append(padding: bytes.span)
      hash.append(padding: messageID.span)
      device.fingerprint = UInt32(truncatingIfNeeded: hash.finish().first)
    }
    return device
  }

  private static func activity(_ fields: RegistrationFields) throws(JobError) -> ActivityRegistration {
    let device = try checked(try required(fields, .device), .device)
    let activity = try checked(try required(fields, .activity), .activity)
    guard !fields.nulls.contains(.token) else {
      throw JobError(field: "token", rule: "must be a string, not null; \"\" says that the activity is over there")
    }
    let token = try required(fields, .token)
    return ActivityRegistration(
      device: device, activity: activity,
      token: token.isEmpty ? nil : try RegistrationFields.token(token, "token"))
  }

  private static func forgotten(_ fields: RegistrationFields) throws(JobError) -> ForgottenSubject {
    guard !fields.nulls.contains(.user) else { throw JobError(field: "user", rule: "must be a string, not null") }
    switch (fields.texts[.device], fields.texts[.user]) {
    case (let device?, nil): return .device(try checked(device, .device))
    case (nil, let user?): return .user(try checked(user, .user))
    case (nil, nil): throw JobError(field: "device", rule: "is missing; forget takes a device or a user")
    case (.some, .some): throw JobError(field: "user", rule: "does not go with device: forget takes one of them")
    }
  }

  private static func change<Value>(
    _ fields: RegistrationFields, _ key: RegistrationFields.Key, _ make: (String) throws(JobError) -> Value
  ) throws(JobError) -> FieldChange<Value> {
    if fields.nulls.contains(key) { return .remove }
    guard let text = fields.texts[key] else { return .keep }
    return .set(try make(text))
  }

  private static func wrong(_ key: RegistrationFields.Key, _ rule: String, _ text: String) -> JobError {
    JobError(field: key.rawValue, rule: "\(rule), not \"\(JobError.describe(text))\"")
  }

  static func isTimeZone(_ text: String) -> Bool {
    1...DeviceLimits.timeZoneBytesMaximum ~= text.utf8.count
      && text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), ASCII.zero...ASCII.nine,
          UInt8(ascii: "/"), UInt8(ascii: "_"), ASCII.plus, ASCII.minus:
          true
        default: false
        }
      }
  }
}
