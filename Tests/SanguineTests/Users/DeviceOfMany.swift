import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

/// A device that several people share, at an ``InMemoryAuthority``: each is a different guest.
///
/// The client has its own session; when a guest signs in, the network replaces the real device's
/// identity with that of the current person.
struct DeviceOfMany {
    /// The person who holds the device, protected by a mutex.
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

    /// Hands the device to another person: the next guest to sign in is this person's.
    func hand(to person: String) { holder.present = person }

    /// Returns the account of a person who has signed in.
    func account(of person: String) -> Identifier? {
        authority.account(ofDevice: "the-device-of-\(person)")
    }

    /// Returns a new client, as a new process would create it.
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

    /// The number of pulls that were answered.
    var pulls: Int { network.requests.count { $0.isPull } }
}
