import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

/// A device that people hand on, at an ``InMemoryAuthority``: each is a guest of their own.
///
/// The client has its own session; the network puts the present person's device in the place of the
/// real one where a guest signs in.
struct DeviceOfMany {
    /// Who holds the device; guarded by its mutex.
    private final class Holder: Sendable {
        private let name = Mutex("ada")

        var present: String {
            get { name.withLock { $0 } }
            set { name.withLock { $0 = newValue } }
        }

        func named(_ request: TransportRequest) -> TransportRequest {
            guard request.url.path() == "/v1/accounts/guest",
                let body = try? WireCoding.decode(GuestRequest.self, from: request.body ?? Data())
            else { return request }
            let guest = GuestRequest(
                deviceId: "the-device-of-\(present)",
                deviceSecret: body.deviceSecret,
                timeZone: body.timeZone,
                language: body.language
            )
            var request = request
            request.body = try? WireCoding.encode(guest)
            return request
        }
    }

    let authority = InMemoryAuthority(schema: .counters)
    let network: ScriptedTransport
    let folder = TemporaryFolder()
    let log = PausingLog()
    private let holder = Holder()

    init() {
        let (authority, holder) = (authority, holder)
        network = ScriptedTransport { .respond(await authority.answer(holder.named($0))) }
    }

    /// Hands the device on: the next guest who signs in is this person's.
    func hand(to person: String) { holder.present = person }

    /// The account of a person who has signed in.
    func account(of person: String) -> Identifier? {
        authority.account(ofDevice: "the-device-of-\(person)")
    }

    /// Another process, as it were.
    func client() throws -> SanguineClient {
        var configuration = SanguineClient.Configuration(server: URL(string: TestClient.server))
        configuration.folder = folder.url
        configuration.transport = network
        configuration.clock = ManualWallClock()
        configuration.delay = ManualClock()
        configuration.schema = .counters
        configuration.logger = log.logger
        return try SanguineClient(configuration)
    }

    /// How many pulls were answered.
    var pulls: Int { network.requests.count { $0.isPull } }
}
