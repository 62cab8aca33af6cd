import Foundation

/// Users, their tokens, and the responses to their requests.
struct Accounts: Sendable {
    /// The credentials of a sign-in, or the token of a renewal.
    struct TokenRequest: Decodable {
        var user: String?
        var password: String?
        var refreshToken: String?
    }

    struct TokenAnswer: Encodable {
        let userId: String
        let accessToken: String
        let refreshToken: String
    }

    /// The response that was given for an `Idempotency-Key`.
    private struct Answer {
        let request: String
        let reply: Reply
    }

    /// The number of stored responses of a user; the oldest are removed.
    static let rememberedAnswers = 1_000
    /// The number of valid access tokens; the oldest are removed.
    static let liveTokens = 10_000

    private let passwords: [String: String]
    private let requestsPerToken: Int
    private var shelves: [String: Shelf] = [:]
    private var refreshTokens: [String: String] = [:]
    private var access: [String: (user: String, left: Int)] = [:]
    private var issued: [String] = []
    private var answers: [String: [String: Answer]] = [:]
    private var keys: [String: [String]] = [:]

    init(passwords: [String: String], requestsPerToken: Int) {
        self.passwords = passwords
        self.requestsPerToken = requestsPerToken
    }

    // MARK: - Tokens

    /// Returns a token for a password or a refresh token.
    mutating func token(for request: TokenRequest) throws -> TokenAnswer {
        let user: String
        if let token = request.refreshToken {
            guard let known = refreshTokens.first(where: { $0.value == token })?.key else {
                throw Refusal(401, "signed_out", "Sign in again.")
            }
            user = known
        } else {
            guard let name = request.user, let password = passwords[name],
                password == request.password
            else { throw Refusal(401, "wrong_password", "The user name or the password is wrong.") }
            user = name
        }
        let refresh = refreshTokens[user] ?? UUID().uuidString
        refreshTokens[user] = refresh
        let token = UUID().uuidString
        access[token] = (user, requestsPerToken)
        issued.append(token)
        if issued.count > Self.liveTokens { access[issued.removeFirst()] = nil }
        return TokenAnswer(userId: user, accessToken: token, refreshToken: refresh)
    }

    /// Returns the user of a token, and counts a request against the token.
    mutating func user(of token: String?) throws -> String {
        guard let token, let (user, left) = access[token], left > 0 else {
            throw Refusal(401, "token_expired", "Renew the token: POST /token.")
        }
        access[token] = (user, left - 1)
        return user
    }

    mutating func expireTokens() {
        access = [:]
        issued = []
    }

    // MARK: - User data

    mutating func change<Value>(
        _ user: String,
        _ body: (inout Shelf) throws -> Value
    ) rethrows -> Value {
        try body(&shelves[user, default: Shelf()])
    }

    /// Performs the body once for each key: a repeated request gets the same response.
    mutating func once(
        _ user: String,
        key: String?,
        request: String,
        _ body: (inout Shelf) throws -> Reply
    ) throws -> Reply {
        guard let key else {
            throw Refusal(400, "key_missing", "Send an 'Idempotency-Key'.")
        }
        if let answer = answers[user]?[key] {
            guard answer.request == request else {
                throw Refusal(422, "key_reused", "The key belongs to another request.")
            }
            return answer.reply
        }
        let reply: Reply
        do {
            reply = try change(user, body)
        } catch let refusal as Refusal {
            reply = refusal.reply
        }
        answers[user, default: [:]][key] = Answer(request: request, reply: reply)
        keys[user, default: []].append(key)
        if let count = keys[user]?.count, count > Self.rememberedAnswers,
            let oldest = keys[user]?.removeFirst()
        {
            answers[user]?[oldest] = nil
        }
        return reply
    }
}
