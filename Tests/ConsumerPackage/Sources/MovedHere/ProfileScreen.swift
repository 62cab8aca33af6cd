import Foundation
import Sanguine

struct Profile: Codable, Sendable, Equatable {
    var id: String
    var name: String
    var followers: Int
}

extension ValueQuery where Value == Profile {
    static func profile(_ id: String) -> Self {
        ValueQuery("profile", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("profiles/\(id)")
        }
    }
}

struct Follow: RemoteMutation {
    static let name = "profile.follow"
    let profile: String

    func effects(on view: inout MutationEffects) {
        view.update(.profile(profile)) { $0.followers += 1 }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("profiles/\(profile)/follow")
    }
}

func makeClient(_ api: URL) throws -> SanguineClient {
    var configuration = SanguineClient.Configuration()
    configuration.baseURL = api
    configuration.register(Follow.self)  // Every mutation, before the client is created.
    return try SanguineClient(configuration)
}

@MainActor
func show(_ id: String, in client: SanguineClient) -> ValueModel<Profile> {
    client.model(.profile(id))  // @Observable: value, phase, error, asOf, refresh()
}

func follow(_ id: String, in client: SanguineClient) throws {
    try client.perform(Follow(profile: id))
}
