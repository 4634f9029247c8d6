/// A broadcast channel with its app and environment: created and listed by `PushChannels`, and the target of a broadcast.
///
/// ```swift
/// struct Score: Encodable, Sendable {
///   var home: Int
///   var away: Int
/// }
///
/// let channel = BroadcastChannel(try ChannelID("dHN0LXNyY2gtY2hubA=="), of: "com.example.app")
/// let goal = LiveActivityUpdate(Score(home: 1, away: 0))
/// let job = try Job(broadcasting: goal, to: channel)
/// ```
public struct BroadcastChannel: Hashable, Sendable {
  /// The id that APNs gave it.
  public let id: ChannelID
  /// The bundle id of the app that the channel was created for.
  public let app: String
  /// The environment in which it was created; it does not exist in the other one.
  public let environment: Job.Environment

  /// Describes an existing channel; makes no request.
  public init(_ id: ChannelID, of app: String, environment: Job.Environment = .production) {
    self.id = id
    self.app = app
    self.environment = environment
  }
}
