/// Counts of simulated devices: pushes for Live Activities, and registrations.
public struct ActivityCounts: Hashable, Sendable {
  /// Activities that appeared on a device.
  public internal(set) var started = 0
  /// Updates and ends that were displayed, each device of a broadcast counted.
  public internal(set) var displayed = 0
  /// Pushes whose timestamp was not newer than what the device displayed.
  public internal(set) var ignored = 0
  /// Pushes for an activity that had ended.
  public internal(set) var late = 0
  /// How often a stale date passed.
  public internal(set) var stale = 0
  /// Activities that ended, for any cause.
  public internal(set) var ended = 0
  /// Ended activities that a second one with the same id replaced.
  public internal(set) var replaced = 0
  /// Accepted pushes that never reached a device.
  public internal(set) var lost = 0
  /// Pushes that the next one overtook.
  public internal(set) var reordered = 0
  /// Updates and ends to a token that no simulated device has, and broadcasts without a follower.
  public internal(set) var unknown = 0
  /// Activities that were evicted because there were too many.
  public internal(set) var forgotten = 0
  /// Registrations of devices: of an update token, or of an activity's end.
  public internal(set) var registrations = 0
  /// Registrations that the webhook answered with success, or that RabbitMQ confirmed.
  public internal(set) var delivered = 0
  /// Registrations that wait or are being sent.
  public internal(set) var waiting = 0
  /// Attempts that failed and were, or will be, repeated.
  public internal(set) var repeated = 0
  /// Registrations that were given up.
  public internal(set) var failed = 0
  /// Why the last attempt failed.
  public internal(set) var lastFailure: String?

  package init() {}

  func write(to json: inout JSONText) {
    json.beginObject()
    json.field("started", started)
    json.field("displayed", displayed)
    json.field("ignored", ignored)
    json.field("late", late)
    json.field("stale", stale)
    json.field("ended", ended)
    json.field("replaced", replaced)
    json.field("lost", lost)
    json.field("reordered", reordered)
    json.field("unknown", unknown)
    json.field("forgotten", forgotten)
    json.field("registrations", registrations)
    json.field("delivered", delivered)
    json.field("waiting", waiting)
    json.field("repeated", repeated)
    json.field("failed", failed)
    json.field("last_failure", lastFailure)
    json.endObject()
  }
}
