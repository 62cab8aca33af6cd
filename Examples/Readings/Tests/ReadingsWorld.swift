import Foundation
import ReadingsApp
import ReadingsModel
import ReadingsServer
import Sanguine
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// The real server, and devices of its users.
struct ReadingsWorld: Sendable {
    let root: URL
    let server: URL
    private let admin: URL
    /// The time of the server and of all devices.
    let clock: ManualWallClock

    /// Runs a server while the body runs.
    ///
    /// - Parameters:
    ///   - moment: The time at which it begins.
    ///   - model: The address of the language model. Default: a stand-in.
    ///   - events: The name of a file in ``root`` that receives events. Default: none.
    ///   - body: Uses the server.
    /// - Throws: The errors of storage, settings and `body`.
    static func with(
        at moment: Timestamp? = nil,
        model: String? = nil,
        events: String? = nil,
        _ body: @escaping @Sendable (ReadingsWorld) async throws -> Void
    ) async throws {
        guard let model else {
            return try await RunningServer.withStandIn { model in
                try await with(at: moment, model: model, events: events, body)
            }
        }
        let root = FileManager.default.temporaryDirectory.appending(path: "readings-\(UUID())")
        defer { try? FileManager.default.removeItem(at: root) }
        let clock = moment.map { ManualWallClock($0) } ?? ManualWallClock()
        var settings = ServerSettings()
        settings.upstream.url = model
        if let events {
            let path = root.appending(path: events).path
            let setting = Setting.all.first { $0.key == "events.file" }
            let isSet = setting?.set(path, in: &settings)
            #expect(isSet == true)
            try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
        }
        try await RunningServer.withReadings(
            folder: root.appending(path: "server"),
            settings: settings,
            clock: clock
        ) { addresses in
            let world = ReadingsWorld(
                root: root,
                server: addresses.http,
                admin: addresses.admin,
                clock: clock
            )
            try Data(SampleFile.jpeg.bytes()).write(to: world.photo)
            try await body(world)
        }
    }

    /// A photo of a palm.
    var photo: URL { root.appending(path: "palm.jpg") }

    // MARK: - Devices

    func folder(_ device: String) -> URL { root.appending(path: device) }

    /// Returns the app's client on a device.
    func client(
        _ device: String = "phone",
        _ configure: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.readings(
            server: server,
            folder: folder(device)
        )
        configuration.transport = URLSessionTransport.patient
        (configuration.clock, configuration.timeZone) = (clock, "Europe/Istanbul")
        configuration.language = "tr"
        configure(&configuration)
        return try SanguineClient(configuration)
    }

    @MainActor
    func screen(_ client: SanguineClient, _ device: String = "phone") -> ReadingsScreen {
        ReadingsScreen(client, folder: folder(device), clock: clock)
    }

    /// Copies the identity of the phone, as a synchronized keychain does.
    func join(_ device: String) throws {
        let files = FileManager.default
        try files.createDirectory(at: folder(device), withIntermediateDirectories: true)
        try files.copyItem(at: identityFile("phone"), to: identityFile(device))
    }

    func identityFile(_ device: String) -> URL {
        folder(device).appending(path: "device-identity.json")
    }

    /// Returns the id by which support finds the device's account.
    func deviceID(_ device: String = "phone") throws -> String {
        let data = try Data(contentsOf: identityFile(device))
        return try #require(JSONDecoder().decode([String: String].self, from: data)["deviceId"])
    }

    /// Waits for a number of e-mails, and returns the code in the newest.
    func code(ofEmail count: Int = 1) async throws -> String {
        let folder = root.appending(path: "server/mail")
        let files = { @Sendable in
            ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? [])
                .filter { $0.hasSuffix(".eml") }.sorted()
        }
        try await eventually("e-mail \(count)", within: .seconds(30)) { files().count >= count }
        // The names are ids in the order of time.
        let newest = folder.appending(path: try #require(files().last))
        let text = try String(contentsOf: newest, encoding: .utf8)
        let found = try #require(text.firstMatch(of: /\b(\d{4}) (\d{4})\b/))
        return String(found.output.1 + found.output.2)
    }

    // MARK: - Support

    /// Sends a request of an administrator.
    func administer(
        _ method: String,
        _ path: String,
        query: [URLQueryItem] = [],
        _ body: String? = nil
    ) async throws -> TransportResponse {
        let file = root.appending(path: "server/admin-token")
        let token = try String(contentsOf: file, encoding: .utf8)
        var url = admin.appending(path: "admin/v1/\(path)")
        if !query.isEmpty { url.append(queryItems: query) }
        let request = TransportRequest(
            method: method,
            url: url,
            headers: [
                "Authorization": "Bearer \(token.trimmingCharacters(in: .whitespacesAndNewlines))",
                "Content-Type": "application/json", "Idempotency-Key": UUID().uuidString,
            ],
            body: body.map { Data($0.utf8) }
        )
        return try await URLSessionTransport.patient.send(request)
    }

    /// Returns the account that support finds by a device's id.
    func account(ofDevice id: String) async throws -> Account {
        let device = URLQueryItem(name: "deviceId", value: id)
        let found = try await administer("GET", "accounts", query: [device])
        let decoder = JSONDecoder()
        if let account = try? decoder.decode(Account.self, from: found.body) { return account }
        struct Details: Decodable { let account: Account }
        return try decoder.decode(Details.self, from: found.body).account
    }
}

extension ReadingsScreen {
    /// Waits until no reading is in progress.
    func settled() async throws {
        try await Task { await settle() }.finished("the readings in progress")
    }

    /// Reads a photo to the end, and waits until it is in the history.
    @discardableResult
    func readWhole(
        _ photo: URL,
        _ kind: ReadingKind = .palm,
        _ origin: Origin = .turkish
    ) async throws -> FunctionResult<String> {
        let answer = try await read(photo, kind, origin)
        let result = try await Task { try await answer.finished() }.finished("the reading")
        try await settled()
        return result
    }
}

extension URLSessionTransport {
    /// The real network, with a clock that never ends a request because the machine is busy.
    static var patient: URLSessionTransport { URLSessionTransport(clock: ManualClock()) }
}

/// Runs a body as many times at once, and returns the results in any order.
func concurrently<Value: Sendable>(
    _ count: Int,
    _ body: @escaping @Sendable (Int) async throws -> Value
) async throws -> [Value] {
    try await withThrowingTaskGroup(of: Value.self) { tasks in
        for number in 0..<count { tasks.addTask { try await body(number) } }
        return try await tasks.reduce(into: []) { $0.append($1) }
    }
}
