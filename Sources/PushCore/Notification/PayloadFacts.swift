/// The result of one pass over a payload: enough for the rules of every push type, because the type may come after
/// the payload in the job.
struct PayloadFacts: Sendable {
  enum Alert: Sendable {
    case absent, string, object, emptyObject
  }

  /// A value with the wrong shape for its key.
  struct Fault: Sendable {
    var key: PayloadKey
    /// The key whose object contains `key`, if `key` may occur in several objects.
    var parent: PayloadKey?
    /// Offset of the value in the job.
    var offset: Int
  }

  /// Keys that are present and not null.
  var keys: PayloadKeySet = []
  /// Keys of the root whose value is a non-empty string.
  var filledStrings: PayloadKeySet = []
  /// Texts of the alert that are objects.
  var textObjects: PayloadKeySet = []
  var rootKeyCount = 0
  var alert = Alert.absent
  var event: ActivityEvent?
  var isContentAvailableOne = false
  var isContentChangedTrue = false
  /// `relevance-score` is below 0 or above 1; the offset of its value.
  var relevanceScoreOutside: Int?
  /// The first key of Apple's that its object has twice: which one counts is not known.
  var repeated: Fault?
  /// The first fault of a key that has a meaning in every push.
  var fault: Fault?
  /// The first fault of a key that has a meaning only in Live Activities.
  var liveActivityFault: Fault?
  /// The first fault of a key that has a meaning only in the answers of accessories.
  var accessoryFault: Fault?
}
