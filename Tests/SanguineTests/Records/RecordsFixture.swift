import Foundation
import SanguineModel
import SanguineTesting
import Testing

@testable import Sanguine

/// Clients of an ``InMemoryAuthority``, with clocks that a test advances.
///
/// Each user of a ``TestAuthorizer`` is another account of the authority; the first is its user's.
struct RecordsFixture {
    let authority: InMemoryAuthority
    let network: ScriptedTransport
    let delay = ManualClock()
    let wall: ManualWallClock
    let connectivity = ManualConnectivity()
    let lifecycle = ManualLifecycle()
    let authorizer = TestAuthorizer()
    let folder: TemporaryFolder?

    init(onDisk: Bool = false, schema: RecordSchema = .counters) {
        let wall = ManualWallClock()
        let authority = InMemoryAuthority(schema: schema, clock: wall)
        let accounts = [authority.user] + (1...3).map { _ in authority.addAccount() }
        network = ScriptedTransport { request in
            var request = request
            let token = request.headers["Authorization"]?.split(separator: "-") ?? []
            let number = token.count > 1 ? Int(token[1]) ?? 0 : 0
            let account = accounts[min(number, accounts.count - 1)]
            let own = await authority.accessToken(for: account)
            request.headers["Authorization"] = "Bearer \(own)"
            return .respond(await authority.answer(request))
        }
        self.wall = wall
        self.authority = authority
        folder = onDisk ? TemporaryFolder() : nil
    }

    /// Returns a new client, as a new process would create it; `authorizer` sets another user.
    func client(
        authorizer: TestAuthorizer? = nil,
        seed: UInt64 = 1,
        change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        try TestClient(
            network: network,
            wall: wall,
            delay: delay,
            folder: folder,
            authorizer: authorizer ?? self.authorizer,
            seed: seed
        ) { configuration in
            configuration.schema = .counters
            configuration.connectivity = connectivity
            configuration.lifecycle = lifecycle
            configuration.deviceId = "a-device-of-the-tests"
            change(&configuration)
        }
        .client
    }

    /// The first user's folder.
    var place: UserFolders.Folder {
        get throws { try UserFolders(try #require(folder).url).current() }
    }

    /// The bodies of the pushes sent so far.
    var pushes: [PushRequest] {
        network.requests.filter { $0.url.path() == "/v1/sync/push" }
            .compactMap { try? WireCoding.decode(PushRequest.self, from: $0.body ?? Data()) }
    }

    var pulls: [URL] {
        network.requests.map(\.url).filter { $0.path() == "/v1/sync/pull" }
    }
}

extension SanguineClient {
    func count(_ id: String) -> Int64? { record(Counter.self, .of(id))?.count }

    /// Counts, as the app would.
    @discardableResult
    func add(
        _ id: String,
        by amount: Int64 = 1,
        limit: Int64 = .max,
        line: String = "main"
    ) throws -> Receipt {
        try perform(Count(id: .of(id), by: amount, limit: limit, line: line))
    }
}

extension TransportRequest {
    var isPush: Bool { url.path() == "/v1/sync/push" }
    var isPull: Bool { url.path() == "/v1/sync/pull" }
}
