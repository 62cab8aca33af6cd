import Sanguine

/// The value that the samples read.
struct Profile: Codable, Sendable, Equatable {
    var name: String
}

extension ValueQuery where Value == Profile {
    static func profile(_ id: String) -> Self {
        ValueQuery("profile", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("profiles/\(id)")
        }
    }
}
