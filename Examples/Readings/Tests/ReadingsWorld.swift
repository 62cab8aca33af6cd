import ExampleTerminal
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
            let standIn = StandInServer(port: 0, logger: .errors("stand-in"))
            return try await standIn.serve { model in
                try await with(at: moment, model: model, events: events, body)
            }
        }
        let clock = moment.map { ManualWallClock($0) } ?? ManualWallClock()
        try await TemporaryFolder.with { root in
            try await ReadingsServer.with(
                folder: root.appending(path: "server"),
                settings: try settings(model, events.map { root.appending(path: $0) }),
                logger: .errors("readings"),
                clock: clock
            ) { server in
                try await server.serve { addresses in
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
        }
    }

    private static func settings(_ model: String, _ events: URL?) throws -> ServerSettings {
        var settings = ServerSettings()
        settings.http.port = 0
        settings.upstream.url = model
        if let events {
            let setting = try #require(Setting.all.first { $0.key == "events.file" })
            #expect(setting.set(events.path, in: &settings))
        }
        return settings
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
    func join(_ device: String) throws { try identity("phone").copy(to: folder(device)) }

    func identity(_ device: String) -> DeviceIdentityFile {
        DeviceIdentityFile(in: folder(device))
    }

    /// Returns the id by which support finds the device's account.
    func deviceID(_ device: String = "phone") throws -> String { try identity(device).deviceID }

    /// Waits for a number of e-mails, and returns the code in the newest.
    func code(ofEmail count: Int = 1) async throws -> String {
        try await MailFolder(of: serverFolder).code(ofMail: count)
    }

    // MARK: - Support

    /// Sends a request of an administrator.
    func administer(
        _ method: String,
        _ path: String,
        query: [URLQueryItem] = [],
        _ body: String? = nil
    ) async throws -> TransportResponse {
        try await support.send(method, path, query: query, body)
    }

    /// Returns the account that support finds by a device's id.
    func account(ofDevice id: String) async throws -> Account {
        try await support.account(ofDevice: id)
    }

    private var support: AdminRequests {
        get throws { try AdminRequests(to: admin, data: serverFolder) }
    }

    private var serverFolder: URL { root.appending(path: "server") }
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
