import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Guests that are merged and apps that are killed while the outbox uploads their files.
@Suite("Devices that upload", .bounded)
struct UploadingDeviceTests {
    private static let film = Data(SampleFile.mp4.bytes(filler: 5_000_000))
    private static let part = 2 << 20

    private let world = UploadWorld()

    private static var filmBody: RequestBody { .data(film, type: "video/mp4") }

    // MARK: - Guests

    @Test(arguments: UploadWorld.Stop.allCases)
    func `a guest is merged while a file uploads: file and record arrive once`(
        stop: UploadWorld.Stop
    ) async throws {
        let account = try await world.register()
        let client = try world.phone.launch()
        try await client.synchronize()
        let guest = try #require(client.accountId)
        #expect(guest != account)
        world.hold(stop)
        let body = stop == .beforeSecondPart ? Self.filmBody : GalleryStage.photo()
        let upload = try await client.enqueueUpload(of: body)
        let receipt = try client.addPhoto("a", upload.id)
        try await world.waitForHeld()
        try await world.signIn(client)
        #expect(client.accountId == account && client.shownPhoto("a") == upload.id)

        world.release()
        try await client.synchronize()
        #expect(try await receipt.outcome == .applied)
        let photo = try #require(client.fileID(of: upload.id))
        #expect(world.photo(of: account) == photo && client.shownPhoto("a") == photo)
        #expect(world.photo(of: guest) == nil)
        #expect(try await world.statusOfFile(photo, as: account) == 200)
        #expect(client.outbox.pending.isEmpty && client.outbox.refused.isEmpty)
        #expect(client.outbox.ofOthers == 0)
        #expect(try world.staged.isEmpty)
    }

    // MARK: - Kills

    @Test(arguments: [UploadWorld.Stop.beforeSecondPart, .afterLastPart])
    func `a large file continues after a kill, and no part is sent twice`(
        stop: UploadWorld.Stop
    ) async throws {
        let client = try world.phone.launch()
        try await client.synchronize()
        world.hold(stop)
        let upload = try await client.enqueueUpload(of: Self.filmBody)
        try client.addPhoto("a", upload.id)
        try await world.waitForHeld()

        let next = try world.phone.launch()
        world.release()
        #expect(next.shownPhoto("a") == upload.id)
        try await next.synchronize()
        #expect(world.offsets == [0, Self.part, 2 * Self.part])
        let photo = try #require(next.fileID(of: upload.id))
        let account = try #require(next.accountId)
        #expect(photo.count == 64 && world.photo(of: account) == photo)
        #expect(next.outbox.pending.isEmpty && next.outbox.refused.isEmpty)
        #expect(try world.staged.isEmpty)
    }

    @Test func `a photo whose response is lost by a kill is stored and named once`() async throws {
        let client = try world.phone.launch()
        try await client.synchronize()
        world.hold(.afterFile)
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try client.addPhoto("a", upload.id)
        try await world.waitForHeld()

        let next = try world.phone.launch()
        world.release()
        try await next.synchronize()
        let photo = try #require(next.fileID(of: upload.id))
        let account = try #require(next.accountId)
        #expect(world.photo(of: account) == photo && next.shownPhoto("a") == photo)
        #expect(next.outbox.pending.isEmpty)
        #expect(try world.staged.isEmpty)
    }
}

/// A guest's phone, and a registered account, on a server in memory whose network stops uploads.
struct UploadWorld {
    /// The moment at which the network stops an upload.
    enum Stop: CaseIterable, Sendable {
        /// The file has not arrived.
        case beforeFile
        /// The file is stored, and the response has not arrived.
        case afterFile
        /// The first part of a large file is stored.
        case beforeSecondPart
        /// All parts of a large file are stored, and the last response has not arrived.
        case afterLastPart

        func fits(_ request: TransportRequest, isAnswered: Bool) -> Bool {
            let offset = request.headers["Upload-Offset"].flatMap { Int($0) }
            return switch self {
            case .beforeFile, .afterFile:
                request.url.path() == GalleryStage.uploadPath && request.method == "POST"
                    && isAnswered == (self == .afterFile)
            case .beforeSecondPart: !isAnswered && offset == 2 << 20
            case .afterLastPart: isAnswered && offset == 4 << 20
            }
        }

        static var allCases: [Stop] { [.beforeFile, .afterFile, .beforeSecondPart] }
    }

    private struct Network {
        var stop: Stop?
        var held = 0
        /// The offsets of the parts that the server has stored.
        var offsets: [Int] = []
    }

    private static let email = "ada@example.org"
    private static let password = "secret word"

    let phone: TestDevice
    private let laptop: TestDevice
    private let authority: InMemoryAuthority
    private let network: WatchedState<Network>

    init() {
        let clock = ManualWallClock()
        var settings = AuthoritySettings()
        // A hash that takes no time.
        settings.passwordCost.logRounds = 1
        let authority = InMemoryAuthority(schema: .gallery, settings: settings, clock: clock)
        let network = WatchedState(Network())
        (self.authority, self.network) = (authority, network)
        let transport = ScriptedTransport { request in
            guard await Self.pass(request, isAnswered: false, network) else {
                return .fail(.cancelled)
            }
            let response = await authority.answer(request)
            if request.method == "PATCH", response.status < 300 {
                let offset = request.headers["Upload-Offset"].flatMap { Int($0) } ?? -1
                network.withLock { $0.offsets.append(offset) }
            }
            guard await Self.pass(request, isAnswered: true, network) else {
                return .fail(.cancelled)
            }
            return .respond(response)
        }
        let devices = (1...2).map { seed in
            TestDevice(network: transport, clock: clock, seed: UInt64(seed)) { configuration in
                configuration.schema = .gallery
                configuration.recordPolling = nil
                configuration.delay = SkippingClock()
                configuration.logger = .silent
            }
        }
        (phone, laptop) = (devices[0], devices[1])
    }

    // MARK: - Network

    /// Waits while the network stops the request; returns `false` if it was cancelled.
    private static func pass(
        _ request: TransportRequest,
        isAnswered: Bool,
        _ network: WatchedState<Network>
    ) async -> Bool {
        let isHeld = network.withLock { network in
            guard network.stop?.fits(request, isAnswered: isAnswered) == true else { return false }
            network.held += 1
            return true
        }
        guard isHeld else { return true }
        let wait: ()? = try? await network.wait(for: "the end of the stop") { $0.stop == nil }
        return wait != nil
    }

    /// Stops uploads at a moment.
    func hold(_ stop: Stop) { network.withLock { $0.stop = stop } }

    func release() { network.withLock { $0.stop = nil } }

    func waitForHeld() async throws {
        try await network.wait(for: "a stopped upload") { $0.held > 0 }
    }

    /// The offsets of the parts that the server has stored.
    var offsets: [Int] { network.value.offsets }

    // MARK: - Accounts

    /// Registers an account on another device, and returns it.
    func register() async throws -> Identifier {
        let client = try laptop.launch()
        try await client.synchronize()
        try await client.account.upgrade(email: Self.email, password: Self.password)
        let mail = try #require(try await authority.authority.dueMail(limit: 9).due.last)
        try await authority.authority.mailSent(mail.id)
        let code = try #require(mail.text.firstMatch(of: #/(\d{4}) (\d{4})/#))
        try await client.account.verify(code: String(code.1 + code.2))
        let account = try #require(client.accountId)
        laptop.quit()
        return account
    }

    func signIn(_ client: SanguineClient) async throws {
        try await client.signIn(email: Self.email, password: Self.password)
    }

    // MARK: - Results

    func photo(of account: Identifier) -> String? {
        authority.record(GalleryPhoto.self, .of("a"), of: account)?.photo
    }

    /// The status of a request for a file.
    func statusOfFile(_ id: String, as account: Identifier) async throws -> Int {
        let token = await authority.accessToken(for: account)
        let request = try TransportRequest(
            method: "GET",
            base: URL(string: TestClient.server),
            path: "\(GalleryStage.uploadPath)/\(id)",
            headers: ["Authorization": "Bearer \(token)"]
        )
        return await authority.answer(request).status
    }

    /// The files on the phone that wait for their upload.
    var staged: [String] {
        get throws {
            let marks = ["IHDR", "ftyp"]
            return try marks.flatMap { try phone.files(with: $0) }.filter { $0.contains("-files/") }
        }
    }
}
