import AlmanacApp
import AlmanacModel
import AlmanacServer
import AlmanacSky
import ExampleTerminal
import Foundation
import Sanguine
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// The real server with a stand-in for the model, and devices of its users.
struct AlmanacWorld: Sendable {
    /// The time that the team's users waited for a prediction.
    static let latency = Duration.seconds(3)

    let root: URL
    let server: URL
    private let admin: URL
    /// The time of the server and of all devices.
    let clock: ManualWallClock
    /// The stand-in's clock, which advances only while a test lets it.
    ///
    /// So an answer that arrives while it stands was not asked of the model.
    let modelClock: ManualClock

    /// Runs both servers while the body runs, from noon in Istanbul on.
    static func with(
        _ body: @escaping @Sendable (AlmanacWorld) async throws -> Void
    ) async throws {
        let clock = try ManualWallClock(#require(Timestamp("2026-11-27T09:00:00Z")))
        let modelClock = ManualClock()
        let standIn = StandInServer(
            port: 0,
            latency: latency,
            clock: modelClock,
            logger: .errors("stand-in")
        )
        try await TemporaryFolder.with { root in
            try await standIn.serve { model in
                var settings = ServerSettings()
                settings.http.port = 0
                settings.upstream.url = model
                try await AlmanacServer.with(
                    folder: root.appending(path: "server"),
                    settings: settings,
                    logger: .errors("almanac"),
                    clock: clock
                ) { server in
                    try await server.serve { addresses in
                        try await body(
                            AlmanacWorld(
                                root: root,
                                server: addresses.http,
                                admin: addresses.admin,
                                clock: clock,
                                modelClock: modelClock
                            )
                        )
                    }
                }
            }
        }
    }

    /// The birth of the user.
    static func birth(_ date: String = "1990-05-17") throws -> BirthData {
        try BirthData(
            date: date,
            time: "14:35",
            zone: "Europe/Istanbul",
            latitude: 41.0082,
            longitude: 28.9784
        )
    }

    // MARK: - Devices

    func folder(_ device: String) -> URL { root.appending(path: device) }

    /// Returns the app's client on a device.
    func client(
        _ device: String = "phone",
        _ configure: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.almanac(
            server: server,
            folder: folder(device)
        )
        configuration.transport = URLSessionTransport.patient
        (configuration.clock, configuration.timeZone) = (clock, "Europe/Istanbul")
        configure(&configuration)
        return try SanguineClient(configuration)
    }

    /// Enters a birth on a device, and waits until the server has it.
    func born(
        _ client: SanguineClient,
        _ date: String = "1990-05-17"
    ) async throws -> (screen: AlmanacScreen, birth: BirthData) {
        let (screen, birth) = (await screen(client), try AlmanacWorld.birth(date))
        _ = try await client.value(of: .account)
        try await screen.setBirth(birth)
        try await client.synchronize()
        return (screen, birth)
    }

    @MainActor
    func screen(_ client: SanguineClient) -> AlmanacScreen { AlmanacScreen(client, clock: clock) }

    /// Copies the identity of the phone, as a synchronized keychain does.
    func join(_ device: String) throws {
        try DeviceIdentityFile(in: folder("phone")).copy(to: folder(device))
    }

    /// Returns the sum of the server's charges for calls, read by a separate device of the user.
    ///
    /// A call that never arrived has none.
    func charges(ofCalls keys: [String]) async throws -> Int64 {
        let name = "auditor-\(UUID())"
        try join(name)
        let auditor = try client(name)
        defer { auditor.close() }
        var sum: Int64 = 0
        for key in keys {
            do throws(SanguineError) {
                sum += try await auditor.result(of: Predict.self, key: key).charged
            } catch {
                if error.code != "not_found" { throw error }
            }
        }
        return sum
    }

    /// The lines in the team's file of feedback.
    var feedback: [Feedback] {
        get throws {
            let file = root.appending(path: "server/feedback.jsonl")
            guard let text = try? String(contentsOf: file, encoding: .utf8) else { return [] }
            return try text.split(separator: "\n").map {
                try JSONDecoder().decode(Feedback.self, from: Data($0.utf8))
            }
        }
    }

    /// Sets the account's plan, as support does.
    func setPremium(_ account: Identifier) async throws {
        let support = try AdminRequests(to: admin, data: root.appending(path: "server"))
        let body = #"{"plan":"premium","reason":"a test"}"#
        let answer = try await support.send("PUT", "accounts/\(account)/plan", body)
        #expect((200...299).contains(answer.status))
    }
}

/// Returns the median of the times that a body measures.
func median(
    of count: Int,
    _ body: () async throws -> Duration
) async rethrows -> Duration {
    var times: [Duration] = []
    for _ in 0..<count { times.append(try await body()) }
    return times.sorted()[count / 2]
}

/// Returns the median time of a body.
func medianTime(of count: Int, _ body: () async throws -> Void) async rethrows -> Duration {
    try await median(of: count) {
        let start = ContinuousClock.now
        try await body()
        return ContinuousClock.now - start
    }
}

extension AlmanacScreen.Asked {
    /// Waits until the thread shows the end of the answer.
    ///
    /// - Throws: The reason why the question left no message.
    @MainActor
    func answer() async throws -> ThreadMessage {
        try await Task { @MainActor in
            while true {
                let answer = thread.messages.last {
                    $0.role == .assistant && $0.record.call == key
                }
                if let answer, answer.phase != .making, answer.phase != .waiting { return answer }
                if let error = thread.error { throw error }
                await change { _ = (thread.messages, thread.error) }
            }
        }
        .finished("the answer")
    }
}

extension RecordedNetwork.Traffic {
    /// The names of the functions that were called, in the order of the calls.
    var calls: [String] {
        let prefix = "POST /v1/functions/"
        return requests.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
    }
}
