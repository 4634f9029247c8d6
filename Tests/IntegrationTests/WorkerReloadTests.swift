import Foundation
import Glibc
import PushIO
import TestSupport
import Testing

/// SIGHUP and changed files, at a worker with jobs in flight.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct WorkerReloadTests {
  /// `herald revoke` with requests on the connection: the worker closes it and sends nothing, over reloads, until
  /// `herald unrevoke`, then everything.
  @Test func revokesWithoutLosingAJob() throws {
    let world = try WorkerWorld("revoke")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.publishJobs(0..<10)
    try world.waitForAccepted(10)
    try world.simulator.setFaults("silence")
    try world.publishJobs(10..<30)
    let isBusy = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 20) {
      world.admin("/metrics")?.body.contains("herald_apns_streams_in_flight 20\n") == true ? true : nil
    }
    #expect(isBusy == true, "\(worker.log)")

    let unknown = try world.herald(["revoke", "nobody"])
    #expect(unknown.status == 1 && unknown.errors.contains("no credential of this name"), "\(unknown.errors)")
    #expect(LoopbackHTTP.request("POST", "/credentials/main/revoke", port: world.adminPort)?.status == 403)
    let revoked = try world.herald(["revoke", "main"])
    #expect(revoked.status == 0 && revoked.output.contains("main is revoked"), "\(revoked.output)\(revoked.errors)")
    #expect(worker.waitForLine("the credential is revoked: its connections are closed"), "\(worker.log)")
    #expect(try world.herald(["check", "--live"]).output.contains("revoked: main"))
    let requests = try world.simulator.counters().requests
    try world.simulator.clearFaults()
    try world.publishJobs(30..<40)
    // All of them went to the retry queues, and none to APNs.
    let isIdle = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 20) {
      world.admin("/metrics")?.body.contains("herald_jobs_in_flight 0\n") == true ? true : nil
    }
    #expect(isIdle == true, "\(worker.log)")
    #expect(try world.simulator.counters().requests == requests)

    // The same key: a touched file or SIGHUP does not end it.
    worker.child.signalLeader(SIGHUP)
    #expect(worker.waitForLine("reloaded", "main"), "\(worker.log)")
    let metrics = world.admin("/metrics")?.body ?? ""
    #expect(metrics.contains("\nherald_credential_revoked{credential=\"main\"} 1\n"), "\(metrics)")
    let ready = world.admin("/readyz")
    #expect(ready?.status == 503 && ready?.body.contains("revoked: main") == true, "\(ready?.body ?? "")")
    #expect(try world.simulator.counters().requests == requests)

    #expect(try world.herald(["unrevoke", "nobody"]).errors.contains("no credential of this name is revoked"))
    let again = try world.herald(["unrevoke", "main"])
    #expect(again.status == 0 && again.output.contains("main is in use again"), "\(again.output)\(again.errors)")
    #expect(worker.waitForLine("the credential's revocation has ended: by command"), "\(worker.log)")
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.waitForAccepted(40)
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
    #expect(try world.expectAccepted(0..<40) == 0)
  }

  /// A second credential with the leaked key: no job of it goes out with that key.
  @Test func revokesAKeyUnderEveryName() throws {
    let world = try WorkerWorld("shared-key")
    let second = """
        - name: second
          team_id: \(world.simulator.teamID)
          key_id: \(world.simulator.keyID)
          key_file: "\(world.simulator.keyFile)"
          environments: [production]
          apps: [com.example.second]
      limits: {per_device_burst: 0}
      """
    let text = world.configuration().replacing("limits: {per_device_burst: 0}", with: second)
    try world.folder.write(text, to: "herald.yaml")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    let revoked = try world.herald(["revoke", "main"])
    #expect(revoked.status == 0, "\(revoked.errors)")
    #expect(
      revoked.output == """
        main is revoked until its key changes or `herald unrevoke main`
        second has the same key: revoked until `herald unrevoke second` too

        """)
    #expect(worker.waitForLine("credential revoked with main, which has the same key"), "\(worker.log)")
    try world.publish(world.job("other").replacing("com.example.app", with: "com.example.second"))
    let isWaiting = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
      world.admin("/metrics")?.body.contains("herald_retries_total{reason=\"none\"") == true ? true : nil
    }
    #expect(isWaiting == true, "\(worker.log)")
    #expect(try world.simulator.counters().requests == 0)
    let again = try world.herald(["unrevoke", "main"])
    #expect(
      again.output == """
        main is in use again
        second has the same key and stays revoked: `herald unrevoke second` ends that

        """)
    #expect(try world.herald(["unrevoke", "second"]).output == "second is in use again\n")
    try world.waitForAccepted(1)
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
  }

  /// Another user of this machine connects from loopback too: only the worker's user and root may change something.
  @Test func anotherUser_changesNothing() throws {
    let world = try WorkerWorld("other-user")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    // A page in a browser of the same user cannot set the header.
    #expect(LoopbackHTTP.request("POST", "/credentials/main/revoke", port: world.adminPort)?.status == 403)
    let request =
      "POST /credentials/main/revoke HTTP/1.0\\r\\nHost: a\\r\\nx-herald-command: 1\\r\\nContent-Length: 0\\r\\n\\r\\n"
    let script = "exec 3<>/dev/tcp/127.0.0.1/\(world.adminPort); printf '\(request)' >&3; timeout 5 cat <&3"
    // Only root can become somebody else; the same request of this user passes below.
    if geteuid() == 0 {
      let other = try ChildProcess.run(
        ["/usr/bin/setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "/bin/bash", "-c", script])
      #expect(other.output.contains("403 Forbidden"), "\(other.output)\(other.errors)")
    }
    #expect(world.admin("/status")?.body.contains(#""revoked":[]"#) == true)
    let own = try ChildProcess.run(["/bin/bash", "-c", script])
    #expect(own.output.contains("200 OK"), "\(own.output)\(own.errors)")
    #expect(world.admin("/status")?.body.contains(#""revoked":["main"]"#) == true)
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
  }

  /// A container's worker: a process outside, though of the same user, is none of its own. Only root may make such a world.
  @Test func aProcessOutsideOfTheContainer_changesNothing() throws {
    let apart = ["/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    guard geteuid() == 0, try ChildProcess.run(apart + ["/bin/true"]).status == 0 else { return }
    let world = try WorkerWorld("container")
    let worker = try world.startWorker(within: apart)
    #expect(world.waitUntilReady(), "\(worker.log)")
    let outside = try world.herald(["revoke", "main"])
    #expect(outside.status != 0 && outside.errors.contains("in its container"), "\(outside.output)\(outside.errors)")
    #expect(world.admin("/status")?.body.contains(#""revoked":[]"#) == true)
    let children = try ChildProcess.run(["/usr/bin/pgrep", "--parent", "\(worker.child.pid)"]).output
    let first = try #require(children.split(separator: "\n").first)
    let inside = try ChildProcess.run(
      [
        "/usr/bin/nsenter", "--target", "\(first)", "--pid", "--mount", try BuiltProgram.path("herald"), "revoke",
        "main",
      ]
        + ["--config", world.configurationFile], environment: WorkerWorld.environment)
    #expect(inside.status == 0, "\(inside.output)\(inside.errors)")
    #expect(world.admin("/status")?.body.contains(#""revoked":["main"]"#) == true)
  }

  /// With a token, every change wants it, wherever it comes from; the command reads it itself.
  @Test func aToken_isWantedOfEveryChange() throws {
    let world = try WorkerWorld("token")
    let file = try world.folder.write("0123456789abcdef0123456789abcdef\n", to: "token")
    try world.folder.write(
      world.configuration(furtherLines: "").replacing("admin: {", with: "admin: {token_file: \"\(file)\", "),
      to: "herald.yaml")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    func post(_ headers: [String], _ path: String = "/credentials/main/revoke") -> Int? {
      LoopbackHTTP.request("POST", path, port: world.adminPort, headers: headers)?.status
    }
    for path in ["/credentials/main/revoke", "/credentials/main/unrevoke", "/pauses/lift"] {
      #expect(post(["x-herald-command: 1"], path) == 401, "\(path)")
      #expect(post(["Authorization: Bearer wrong"], path) == 401, "\(path)")
    }
    let revoked = try world.herald(["revoke", "main"])
    #expect(revoked.status == 0, "\(revoked.errors)")
    #expect(post(["Authorization: Bearer 0123456789abcdef0123456789abcdef"]) == 200)
    #expect(try world.herald(["unrevoke", "main"]).status == 0)
    // A new token holds at once.
    try world.folder.write("another-token-of-the-worker", to: "token")
    #expect(post(["Authorization: Bearer 0123456789abcdef0123456789abcdef"]) == 401)
    #expect(post(["Authorization: Bearer another-token-of-the-worker"]) == 200)
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
  }

  @Test func reloadsWithoutLosingAJob() throws {
    let world = try WorkerWorld("reload")
    // After its restart, the simulator accepts any key.
    world.simulator.stop()
    try world.simulator.start()
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.publishJobs(0..<100)
    try world.waitForAccepted(100)

    try world.folder.write("credentials: [{name: main, kee_file: x}]\n", to: "herald.yaml")
    worker.child.signalLeader(SIGHUP)
    #expect(worker.waitForLine("not reloaded", "kee_file", "nothing has changed"), "\(worker.log)")
    try world.folder.write(world.configuration(keyFile: world.folder.path("none.p8")), to: "herald.yaml")
    worker.child.signalLeader(SIGHUP)
    #expect(worker.waitForLine("not reloaded", "none.p8", "no such file"), "\(worker.log)")
    // The first credential's new key is good, the second one's is not: the worker applies neither, nor the log level.
    let stranger = try ProviderTokenSigner(newKeyFor: "stranger")
    let strange = try world.folder.write(String(decoding: stranger.privateKeyPEM(), as: UTF8.self), to: "Stranger.p8")
    let second = """
        - name: second
          team_id: \(world.simulator.teamID)
          key_id: SIMKEY0009
          key_file: "\(world.folder.path("absent.p8"))"
          apps: [com.example.second]
      limits: {per_device_burst: 0}
      """
    try world.folder.write(
      world.configuration(keyFile: strange, furtherLines: "log: {level: critical}")
        .replacingOccurrences(of: "limits: {per_device_burst: 0}", with: second), to: "herald.yaml")
    worker.child.signalLeader(SIGHUP)
    #expect(worker.waitForLine("not reloaded", "second", "absent.p8"), "\(worker.log)")
    try world.folder.write("lanes: no\n", to: "herald.yaml")
    worker.child.signalLeader(SIGHUP)
    #expect(worker.waitForLine("not reloaded", "lanes"), "the level is what it was: \(worker.log)")
    // Only the commands of this test read it; the worker does not.
    try world.folder.write(world.configuration(), to: "herald.yaml")
    // The second credential never existed, and the simulator accepts the first one's old key.
    #expect(world.admin("/metrics")?.body.contains("SIMKEY0009") == false)
    try world.publishJobs(100..<200)
    try world.waitForAccepted(200)

    // Another key, while jobs are in flight.
    try world.simulator.setFaults("latency=500")
    try world.publishJobs(200..<300)
    let signer = try ProviderTokenSigner(newKeyFor: "rotation")
    let keyFile = try world.folder.write(String(decoding: signer.privateKeyPEM(), as: UTF8.self), to: "New.p8")
    let rotated = world.configuration(keyFile: keyFile, furtherLines: "log: {level: debug}")
      .replacingOccurrences(of: world.simulator.keyID, with: "SIMKEY0002")
      .replacingOccurrences(of: "prefetch: 200", with: "prefetch: 300")
    try world.folder.write(rotated, to: "herald.yaml")
    worker.child.signalLeader(SIGHUP)
    #expect(worker.waitForLine("reloaded", "main"), "\(worker.log)")
    #expect(worker.waitForLine("want a restart", "rabbitmq.prefetch"), "\(worker.log)")
    try world.publishJobs(300..<400)
    try world.waitForAccepted(400)
    let metrics = world.admin("/metrics")?.body ?? ""
    #expect(metrics.contains("herald_provider_token_refreshes_total{key_id=\"SIMKEY0002\"} 1\n"))

    // The key file in use changes, without a signal.
    let next = try ProviderTokenSigner(newKeyFor: "rotation")
    let reloads = worker.lines.count { $0.contains("reloaded") }
    try world.folder.write(String(decoding: next.privateKeyPEM(), as: UTF8.self), to: "New.p8")
    let isReloaded = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
      worker.lines.count { $0.contains("reloaded") } > reloads ? true : nil
    }
    #expect(isReloaded == true, "\(worker.log)")
    try world.publishJobs(400..<500)
    try world.waitForAccepted(500)
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
    #expect(try world.expectAccepted(0..<500) == 0)
    #expect(try world.simulator.counters().duplicateIDs == 0)
  }
}
