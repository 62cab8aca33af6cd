import Foundation
import Observation

#if canImport(FoundationNetworking)
import FoundationNetworking  // URLSession, on Linux.
#endif

struct Profile: Codable, Sendable, Equatable {
    var id: String
    var name: String
    var followers: Int
}

/// Joins simultaneous requests for one key.
actor Coalescer<Value: Sendable> {
    private var tasks: [String: Task<Value, any Error>] = [:]

    func value(
        for key: String,
        fetch: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        if let task = tasks[key] { return try await task.value }
        let task = Task { try await fetch() }
        tasks[key] = task
        defer { tasks[key] = nil }
        return try await task.value
    }
}

/// Keeps values for five minutes.
actor TimedCache<Value: Sendable> {
    private struct Entry {
        var value: Value
        var expires: Date
    }
    private var entries: [String: Entry] = [:]
    private let lifetime: TimeInterval = 300
    private let limit = 500

    func value(for key: String) -> Value? {
        guard let entry = entries[key], entry.expires > Date() else {
            entries[key] = nil
            return nil
        }
        return entry.value
    }

    func set(_ value: Value, for key: String) {
        if entries.count >= limit,
            let oldest = entries.min(by: { $0.value.expires < $1.value.expires })
        {
            entries[oldest.key] = nil
        }
        entries[key] = Entry(value: value, expires: Date(timeIntervalSinceNow: lifetime))
    }

    func remove(_ key: String) { entries[key] = nil }
}

/// Tries a read again.
func withRetry<Value: Sendable>(
    attempts: Int = 3,
    _ body: @Sendable () async throws -> Value
) async throws -> Value {
    var delay = 1.0
    for attempt in 1...attempts {
        do {
            return try await body()
        } catch {
            if attempt == attempts || Task.isCancelled { throw error }
            let jitter = Double.random(in: 0.75...1.25)
            try await Task.sleep(for: .seconds(delay * jitter))
            delay *= 2
        }
    }
    throw CancellationError()
}

/// Asks the backend.
struct ProfileService: Sendable {
    let base: URL
    private let cache = TimedCache<Profile>()
    private let coalescer = Coalescer<Profile>()

    init(base: URL) { self.base = base }

    func profile(_ id: String) async throws -> Profile {
        if let cached = await cache.value(for: id) { return cached }
        let url = base.appending(path: "profiles/\(id)")
        let profile = try await coalescer.value(for: id) {
            try await withRetry {
                let (data, _) = try await URLSession.shared.data(from: url)
                return try JSONDecoder().decode(Profile.self, from: data)
            }
        }
        await cache.set(profile, for: id)
        return profile
    }

    func follow(_ id: String) async throws {
        var request = URLRequest(url: base.appending(path: "profiles/\(id)/follow"))
        request.httpMethod = "POST"
        let (_, response) = try await URLSession.shared.data(for: request)
        guard (response as? HTTPURLResponse)?.statusCode == 200 else {
            throw URLError(.badServerResponse)
        }
        await cache.remove(id)
    }
}

/// Shows a profile, and follows it at once.
@MainActor
@Observable
final class ProfileViewModel {
    private(set) var profile: Profile?
    private(set) var error: String?
    private(set) var isLoading = false
    private let id: String
    private let service: ProfileService
    private var pending = 0

    init(_ id: String, service: ProfileService) {
        self.id = id
        self.service = service
    }

    func load() async {
        isLoading = true
        defer { isLoading = false }
        do {
            let loaded = try await service.profile(id)
            if pending == 0 { profile = loaded }
            error = nil
        } catch {
            self.error = "\(error)"
        }
    }

    func follow() {
        let before = profile
        profile?.followers += 1
        pending += 1
        Task {
            do {
                try await service.follow(id)
            } catch {
                profile = before
                self.error = "\(error)"
            }
            pending -= 1
            if pending == 0 { await load() }
        }
    }
}
