import APNsSimulator
import TestSupport
import Testing

/// The cards of the simulator's page: each kind of push has its own, and all text is escaped.
@Suite struct SimulatorCardTests {
  private func card(
    _ payload: String, type: String = "alert", topic: String = "com.example.app", ending: LedgerEntry.Ending = .answered
  ) -> String {
    let entry = LedgerEntry(
      number: 1, apnsID: SimulatorRequests.apnsID, target: "00<fc", topic: topic, pushType: type, connection: 2,
      stream: 3,
      receivedAt: 1_795_266_061_000, status: 200, reason: nil, ending: ending)
    return NotificationCard(SeenNotification(entry: entry, payload: Array(payload.utf8))).html
  }

  @Test func anAlert() {
    let html = card(
      #"""
      {"aps":{"alert":{"title":"Shipped","subtitle":"Parcel 7","body":"On its way"},"badge":3,"sound":"ping.caf",
      "interruption-level":"time-sensitive","category":"PARCEL"}}
      """#)
    for part in [
      #"<article class="banner""#, "<p class=title dir=auto>Shipped</p>", "<p class=subtitle dir=auto>Parcel 7</p>",
      "<p class=text dir=auto>On its way</p>", "<b class=badge>3</b>", "sound: ping.caf", "time-sensitive",
      "category: PARCEL", "com.example.app", "13:01:01 UTC",
    ] { #expect(html.contains(part), "\(part)") }
  }

  @Test(arguments: [
    (#"{"aps":{"content-available":1},"inbox":7}"#, "background", "", "silent", "Background update, not shown"),
    (#"{"aps":{"badge":0}}"#, "alert", "", "silent", "Badge only"),
    (#"{"aps":{"sound":"a"}}"#, "alert", "", "silent", "Sound only"),
    (#"{"caller":"Ben"}"#, "voip", ".voip", "call", "Incoming call"),
    (
      #"{"aps":{"event":"update","content-state":{"score":"2 : 1"}}}"#, "liveactivity", ".push-type.liveactivity",
      "activity",
      "Live Activity: update"
    ),
    (#"{"aps":{"content-changed":true}}"#, "widgets", ".push-type.widgets", "silent", "Widgets reload, not shown"),
    (
      PayloadExamples.accessory, "accessory", ".push-type.accessory", "silent", "Answer of an accessory, not shown"
    ),
    (#"{"mdm":"magic"}"#, "mdm", "", "silent", "Device management, not shown"),
  ])
  func kinds(_ payload: String, type: String, suffix: String, style: String, kind: String) {
    let html = card(payload, type: type, topic: "com.example.app" + suffix)
    #expect(html.contains("<article class=\"\(style)\""))
    #expect(html.contains("<p class=kind dir=auto>\(kind)</p>"))
    #expect(html.contains("<b>com.example.app</b>"), "the app without the suffix of its topic")
  }

  @Test func whatTheAppWouldLookUp() {
    let html = card(#"{"aps":{"alert":{"title-loc-key":"T","loc-key":"B","loc-args":["Ann","7"]}}}"#)
    #expect(html.contains(">T</p>"))
    #expect(html.contains(">B(Ann, 7)</p>"))
  }

  @Test func nothingIsMarkup() {
    let html = card(
      #"{"aps":{"alert":{"title":"<script>x</script>","body":"a & 'b' \"c\""},"category":"<i>"}}"#, type: "<b>",
      topic: #""><img src=x>"#)
    for part in ["<script", "<i>", "<img", "00<fc"] { #expect(!html.contains(part), "\(part)") }
    #expect(html.contains("&lt;script&gt;x&lt;/script&gt;"))
    #expect(html.contains("a &amp; &#39;b&#39; &quot;c&quot;"))
  }

  @Test func oddPayloads() {
    for payload in ["", "no JSON", "[]", #"{"aps":1}"#, #"{"aps":{"alert":7,"badge":"x"}}"#] {
      #expect(card(payload).contains("<article"))
    }
    let long = card(#"{"aps":{"alert":"\#(String(repeating: "é", count: 4000))"}}"#)
    #expect(long.contains(String(repeating: "é", count: 600) + "…</p>"))
    #expect(card(#"{"aps":{"alert":"x"}}"#, ending: .dropped).contains("the client never heard: dropped"))
  }
}
