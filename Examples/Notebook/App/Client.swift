import Foundation
import Sanguine

extension SanguineClient.Configuration {
    /// The notebooks' API, with its JSON, its tokens, its errors, and the app's mutations.
    mutating func setUp(_ api: URL, _ tokens: Tokens) {
        baseURL = api
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        encoder.keyEncodingStrategy = .convertToSnakeCase
        authorize = { request in
            request.headers["Authorization"] = "Bearer \(try await tokens.access())"
        }
        refresh = { try await tokens.renew() }
        errorBody = { response in
            let body = try? JSONDecoder().decode(APIError.self, from: response.body)
            return body.map { ErrorBody(code: $0.error.code, detail: $0.error.message) }
        }
        register(
            AddNotebook.self,
            RenameNotebook.self,
            DeleteNotebook.self,
            AddNote.self,
            EditNote.self,
            DeleteNote.self
        )
    }
}

/// An error of the API: `{"error": {"code": …, "message": …}}`.
private struct APIError: Decodable {
    struct Content: Decodable {
        let code: String
        let message: String
    }
    let error: Content
}
