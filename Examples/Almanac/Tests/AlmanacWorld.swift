import AlmanacApp
import AlmanacModel
import AlmanacServer
import AlmanacSky
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
        let root = FileManager.default.temporaryDirectory.appending(path: "almanac-\(UUID())")
        defer { try? FileManager.default.removeItem(at: root) }
        let clock = try ManualWallClock(#require(Timestamp("2026-11-27T09:00:00Z")))
        let modelClock = ManualClock()
        try await RunningServer.withStandIn(latency: latency, clock: modelClock) { model in
            var settings = ServerSettings()
            settings.upstream.url = model
            try await RunningServer.withAlmanac(
                folder: root.appending(path: "server"),
                settings: settings,
                clock: clock
            ) { addresses in
                let world = AlmanacWorld(
                    root: root,
                    server: addresses.http,
                    admin: addresses.admin,
                    clock: clock,
                    modelClock: modelClock
                )
                try await body(world)
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

    @MainActor
    func screen(_ client: SanguineClient) -> AlmanacScreen { AlmanacScreen(client, clock: clock) }

    /// Copies the identity of the phone, as a synchronized keychain does.
    func join(_ device: String) throws {
        let (files, name) = (FileManager.default, "device-identity.json")
        try files.createDirectory(at: folder(device), withIntermediateDirectories: true)
        try files.copyItem(
            at: folder("phone").appending(path: name),
            to: folder(device).appending(path: name)
        )
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
        let file = root.appending(path: "server/admin-token")
        let token = try String(contentsOf: file, encoding: .utf8)
        let request = TransportRequest(
            method: "PUT",
            url: admin.appending(path: "admin/v1/accounts/\(account)/plan"),
            headers: [
                "Authorization": "Bearer \(token.trimmingCharacters(in: .whitespacesAndNewlines))",
                "Content-Type": "application/json", "Idempotency-Key": UUID().uuidString,
            ],
            body: Data(#"{"plan":"premium","reason":"a test"}"#.utf8)
        )
        let answer = try await URLSessionTransport.patient.send(request)
        #expect((200...299).contains(answer.status))
    }
}

extension AnswerModel {
    /// Waits for the whole answer.
    func whole() async throws -> FunctionResult<Output> {
        try await Task { try await self.finished() }.finished("the answer")
    }
}

extension URLSessionTransport {
    /// The real network, with a clock that never ends a request because the machine is busy.
    static var patient: URLSessionTransport { URLSessionTransport(clock: ManualClock()) }
}
