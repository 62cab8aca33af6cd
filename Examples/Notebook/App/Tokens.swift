import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking  // URLSession, on Linux.
#endif

/// The app's own authentication, by the API's `POST /token`, as it existed before.
///
/// Tokens are in memory; a real app stores the refresh token in the keychain.
actor Tokens {
    struct NotSignedIn: Error {}

    /// The response of the API.
    struct Issued: Decodable {
        let userId: String
        let accessToken: String
        let refreshToken: String
    }

    private let url: URL
    private var issued: Issued?

    init(api: URL) { url = api.appending(path: "token") }

    func access() throws -> String {
        guard let issued else { throw NotSignedIn() }
        return issued.accessToken
    }

    /// Signs in with a password.
    ///
    /// - Returns: The user's id.
    func signIn(_ user: String, _ password: String) async throws -> String {
        let issued = try await post(["user": user, "password": password])
        self.issued = issued
        return issued.userId
    }

    func renew() async throws {
        guard let issued else { throw NotSignedIn() }
        let renewed = try await post(["refresh_token": issued.refreshToken])
        // Another user may have signed in by now.
        if self.issued?.userId == renewed.userId { self.issued = renewed }
    }

    func signOut() { issued = nil }

    private func post(_ body: [String: String]) async throws -> Issued {
        var request = URLRequest(url: url)
        request.httpMethod = "POST"
        request.httpBody = try JSONEncoder().encode(body)
        let (data, response) = try await URLSession.shared.data(for: request)
        // A server error does not mean that the user is signed out, so the client retries.
        switch (response as? HTTPURLResponse)?.statusCode ?? 0 {
        case 200: break
        case 500...: throw URLError(.badServerResponse)
        default: throw NotSignedIn()
        }
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(Issued.self, from: data)
    }
}
