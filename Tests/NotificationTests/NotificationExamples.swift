/// The examples of the documentation, line for line: `DocumentationTests` compares them. This file sees of the library
/// only what a producer sees.
import Foundation
import PushNotifications

enum NotificationExamples {
  static func alert() throws -> [Job] {
    struct Order: Encodable, Sendable { var order: String }

    let shipped = try AlertNotification(
      Alert(title: "Shipped", body: "Your order is on its way."), badge: 1, sound: .default, threadID: "orders",
      interruptionLevel: .timeSensitive, relevanceScore: 0.8, collapseID: CollapseID("order-123"),
      data: Order(order: "123"))
    let counted = try AlertNotification(badge: 0)
    let heard = try AlertNotification(sound: .critical("siren.caf", volume: 0.9))

    let plain = Alert(title: "Shipped", subtitle: "Order 123", body: "It is on its way.")
    let translated = Alert(title: .localized(key: "SHIPPED"), body: .localized(key: "ETA", arguments: ["Monday"]))
    return try [shipped, counted, heard, AlertNotification(plain), AlertNotification(translated)].map { push in
      try Job(push, to: .device("00fc13adff785122"), of: "com.example.app")
    }
  }

  static func aJob() throws -> Job {
    let push = try AlertNotification(Alert(title: "Shipped", body: "Your order is on its way."))
    let job = try Job(push, to: .device("00fc13adff785122"), of: "com.example.app")
    return job
  }

  static func aJobWithAll() throws -> Job {
    let push = try AlertNotification(Alert(title: "Shipped"), expiration: .at(Date(timeIntervalSinceNow: 3600)))
    let job = try Job(push, to: .device("00fc13adff785122"), of: "com.example.app", meta: ["campaign": "42"])
    return job
  }

  static func wallet() throws -> Job {
    let job = try Job(WalletNotification(), to: .device("00fc13adff785122"), of: "pass.com.example.ticket")
    return job
  }

  static func background() throws -> Job {
    struct Sync: Encodable, Sendable { var collection: String }

    let sync = BackgroundNotification(data: Sync(collection: "messages"))
    return try Job(sync, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func voip() throws -> Job {
    struct Call: Encodable, Sendable {
      var caller: String
      var call: String
    }

    let ring = VoIPNotification(Call(caller: "Ada", call: "7"), expiration: .notStored)
    return try Job(ring, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func pushToTalk() throws -> Job {
    struct Speaker: Encodable, Sendable { var activeSpeaker: String }

    let talk = PushToTalkNotification(Speaker(activeSpeaker: "Ada"))
    return try Job(talk, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func complication() throws -> Job {
    struct Tide: Encodable, Sendable { var level: Double }

    let tide = ComplicationNotification(Tide(level: 1.2))
    return try Job(tide, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func fileProvider() throws -> Job {
    let changed = try FileProviderNotification(containerIdentifier: "NSFileProviderWorkingSetContainerItemIdentifier")
    return try Job(changed, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func location() throws -> Job {
    let query = LocationNotification(priority: .immediate)
    return try Job(query, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func mdm() throws -> Job {
    let wake = try MDMNotification(pushMagic: "5C1A1F8A-4A8C-4C0F-9C0E-2B2B0C2C1D1E")
    return try Job(wake, to: .device("00fc13adff785122"), of: "com.apple.mgmt.External.0a1b")
  }

  static func widgets() throws -> Job {
    let reload = WidgetsNotification(priority: .considerate)
    return try Job(reload, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func controls() throws -> Job {
    let reload = ControlsNotification()
    return try Job(reload, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func accessory() throws -> Job {
    let response = try AccessoryNotification(
      encryptedData: [0x3E, 0x8F, 0xBF], sessionIdentifier: "0F6B1E0C-6A0B-4B7C-9C2B-0E6F3A1D2C4B",
      keyID: [0x01], messageIndex: 7)
    return try Job(response, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func activityStart() throws -> Job {
    struct Match: Encodable, Sendable {
      var home: String
      var away: String
    }
    struct Score: Encodable, Sendable {
      var home: Int
      var away: Int
    }

    let kickOff = LiveActivityStart(
      Match(home: "Ajax", away: "Porto"), state: Score(home: 0, away: 0),
      alert: ActivityAlert(title: "Kick-off", body: "Ajax – Porto"), updates: .token)
    return try Job(kickOff, to: .device("00fc13adff785122"), of: "com.example.app")
  }

  static func activityUpdate() throws -> [Job] {
    struct Score: Encodable, Sendable {
      var home: Int
      var away: Int
    }

    let goal = LiveActivityUpdate(
      Score(home: 1, away: 0), alert: ActivityAlert(title: "Goal", body: .localized(key: "GOAL", arguments: ["Ajax"])))
    let here = try Job(goal, to: .device("00fc13adff785122"), of: "com.example.app")
    let everywhere = try Job(broadcasting: goal, to: ChannelID("dHN0LXNyY2gtY2hubA=="), of: "com.example.app")
    return [here, everywhere]
  }

  static func broadcast() throws -> Job {
    struct Score: Encodable, Sendable {
      var home: Int
      var away: Int
    }

    let channel = BroadcastChannel(try ChannelID("dHN0LXNyY2gtY2hubA=="), of: "com.example.app")
    let goal = LiveActivityUpdate(Score(home: 1, away: 0))
    let job = try Job(broadcasting: goal, to: channel)
    return job
  }

  static func activityEnd() throws -> [Job] {
    struct Score: Encodable, Sendable {
      var home: Int
      var away: Int
    }

    let final = LiveActivityEnd(Score(home: 2, away: 1), dismissal: .at(Date(timeIntervalSinceNow: 900)))
    let gone = LiveActivityEnd(dismissal: .immediately)
    return [
      try Job(final, to: .device("00fc13adff785122"), of: "com.example.app"),
      try Job(broadcasting: gone, to: ChannelID("dHN0LXNyY2gtY2hubA=="), of: "com.example.app"),
    ]
  }

  /// All of them, with the kind that each shows.
  static func all() throws -> [(kind: String, job: Job)] {
    var all: [(String, Job)] = try alert().map { ("alert", $0) }
    all += try [("alert", aJob()), ("alert", aJobWithAll()), ("alert", wallet()), ("background", background())]
    all += try [("voip", voip()), ("pushtotalk", pushToTalk()), ("complication", complication())]
    all += try [("fileprovider", fileProvider()), ("location", location()), ("mdm", mdm())]
    all += try [("widgets", widgets()), ("controls", controls()), ("liveactivity", activityStart())]
    all += try [("accessory", accessory())]
    all += try activityUpdate().map { ("liveactivity", $0) }
    all += try [("liveactivity", broadcast())]
    all += try activityEnd().map { ("liveactivity", $0) }
    return all
  }
}
