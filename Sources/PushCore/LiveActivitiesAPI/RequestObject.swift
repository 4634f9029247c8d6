/// Members of an object that is read. No client sends as many; each costs an allocation.
private let requestMembersMaximum = 1000

/// An object in a request, with the members that are read. null counts as absent. Other keys are ignored, as the original API does.
struct RequestObject<Key: Hashable & RawRepresentable<String>> {
  let json: CheckedJSON
  /// Such as `notifications[0].live_activity`; empty: the whole request.
  let path: String
  private var places: [Key: Int] = [:]

  /// - Parameter place: where the object is expected.
  init(_ json: CheckedJSON, at place: Int, path: String) throws(LiveActivitiesFault) {
    self.json = json
    self.path = path
    guard let members = json.members(at: place) else {
      throw LiveActivitiesFault(path, "must be key-value object, not \(json.description(at: place))")
    }
    guard members.count <= requestMembersMaximum else {
      throw LiveActivitiesFault(path, "must have at most \(requestMembersMaximum) members, not \(members.count)")
    }
    for member in members {
      guard let key = Key(rawValue: json.text(member.key)) else { continue }
      guard places[key] == nil else { throw LiveActivitiesFault(self.path(of: key), "must be there once, not twice") }
      places[key] = member.value
    }
    places = places.filter { !json.isNull(at: $0.value) }
  }

  /// The place of a member's value; nil: absent.
  subscript(key: Key) -> Int? { places[key] }

  func path(of key: Key) -> String { path.isEmpty ? key.rawValue : "\(path).\(key.rawValue)" }

  /// The first of these keys that is present.
  func first(of keys: Key...) -> Key? { keys.first { places[$0] != nil } }

  // MARK: - Values

  func text(_ key: Key) throws(LiveActivitiesFault) -> String? {
    guard let place = places[key] else { return nil }
    guard let text = json.text(at: place) else { throw wrong(key, "must be a string") }
    return text
  }

  /// A string. An empty one counts as absent.
  func filledText(_ key: Key) throws(LiveActivitiesFault) -> String? {
    guard let text = try text(key), !text.isEmpty else { return nil }
    return text
  }

  func requiredText(_ key: Key) throws(LiveActivitiesFault) -> String {
    guard let text = try filledText(key) else { throw LiveActivitiesFault(path(of: key), "is missing") }
    return text
  }

  func object<Inner>(_ key: Key) throws(LiveActivitiesFault) -> RequestObject<Inner>? {
    guard let place = places[key] else { return nil }
    return try RequestObject<Inner>(json, at: place, path: path(of: key))
  }

  /// The bytes of an object.
  func rawObject(_ key: Key) throws(LiveActivitiesFault) -> ArraySlice<UInt8>? {
    guard let place = places[key] else { return nil }
    guard json.bytes[place] == ASCII.openBrace else { throw wrong(key, "must be key-value object") }
    return json.raw(at: place)
  }

  func texts(_ key: Key) throws(LiveActivitiesFault) -> [String]? {
    guard let place = places[key] else { return nil }
    guard let elements = json.elements(at: place) else { throw wrong(key, "must be an array of strings") }
    var texts: [String] = []
    for (index, element) in elements.enumerated() {
      guard let text = json.text(at: element) else {
        throw LiveActivitiesFault(
          "\(path(of: key))[\(index)]", "must be a string, not \(json.description(at: element))")
      }
      texts.append(text)
    }
    return texts
  }

  /// A fault that shows the wrong value.
  func wrong(_ key: Key, _ rule: String) -> LiveActivitiesFault {
    LiveActivitiesFault(path(of: key), places[key].map { "\(rule), not \(json.description(at: $0))" } ?? rule)
  }
}
