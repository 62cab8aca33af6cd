import SanguineModel
import SanguineTesting

/// The users of a run: their sessions, positions in the list and numbers of operations.
///
/// It builds requests from what earlier responses contained. A request whose ingredients are still
/// on their way has to wait, as it would in an app:
///
/// 1. Everything waits for the session.
/// 2. A page waits for the page before it.
/// 3. A like or post waits for the user's previous one, because operations have an order.
struct LoadUsers: Sendable {
    /// What a request needs and changes.
    enum Kind: Hashable, Sendable {
        case guest, list(isFirst: Bool), push, live, function
        case request(String)
    }

    /// A request as it is sent.
    struct Message: Hashable, Sendable {
        var method: String
        var path: String
        var token: String?
        var key: String?
        var body: String?
    }

    private enum Session: Sendable {
        case none, opening
        case open(token: String)
    }

    private struct User: Sendable {
        var session = Session.none
        var cursor: String?
        var post: String?
        var isListing = false
        var isPushing = false
        var sequence: Int64 = 0
    }

    private let plan: LoadPlan
    /// Distinguishes the devices and records of this run from those of others.
    private let run: String
    private var users: [Int: User] = [:]
    private var random: SplitMix64
    private let start: Timestamp

    /// Creates the users.
    ///
    /// - Parameters:
    ///   - plan: The plan.
    ///   - run: Letters and digits that no other run on the server has.
    ///   - start: The time of the ids of records.
    init(_ plan: LoadPlan, run: String, start: Timestamp) {
        self.plan = plan
        self.run = run
        self.start = start
        let hash = run.utf8.reduce(14_695_981_039_346_656_037 as UInt64) {
            ($0 ^ UInt64($1)) &* 1_099_511_628_211
        }
        random = SplitMix64(seed: hash)
    }

    /// Returns the kind of a step; `nil` is the sign-in.
    func kind(of step: Int?) -> Kind {
        guard let step else { return .guest }
        return switch plan.steps[step].known {
        case .feed: .list(isFirst: true)
        case .page: .list(isFirst: false)
        case .like, .post: .push
        case .live: .live
        case .ask: .function
        case nil: .request(plan.steps[step].name)
        }
    }

    /// Whether the user has to sign in before anything else, and is not doing so.
    func needsSession(_ user: Int) -> Bool {
        if case .none = users[user, default: User()].session { return true }
        return false
    }

    /// Whether the values that a request needs are known.
    func isReady(_ user: Int, _ kind: Kind) -> Bool {
        let user = users[user, default: User()]
        if kind == .guest { return true }
        guard case .open = user.session else { return false }
        return switch kind {
        case .list: !user.isListing
        case .push: !user.isPushing
        case .guest, .live, .function, .request: true
        }
    }

    /// Builds the request, which is then on its way.
    mutating func send(_ number: Int, step: Int?) -> Message {
        var user = users[number, default: User()]
        defer { users[number] = user }
        switch kind(of: step) {
        case .guest:
            user.session = .opening
            let secret = String(repeating: "A", count: 43)
            return Message(
                method: "POST",
                path: "/v1/accounts/guest",
                body: #"{"deviceId":"\#(device(number))","deviceSecret":"\#(secret)"}"#
            )
        case .list(let isFirst):
            user.isListing = true
            let path = "/v1/collections/\(plan.collection)/records?limit=\(plan.pageSize)"
            // After the last page, a user begins again.
            let cursor = isFirst ? nil : user.cursor
            return message("GET", path + (cursor.map { "&cursor=\($0)" } ?? ""), user)
        case .push:
            user.isPushing = true
            user.sequence += 1
            return push(number, user, isLike: step.map { plan.steps[$0].known } == .like)
        case .live:
            return message("GET", "/v1/live", user)
        case .function:
            let body = #"{"input":{"text":"How are you?"}}"#
            return message("POST", "/v1/functions/\(plan.function)", user, body: body)
        case .request(let name):
            let request = plan.requests[name] ?? LoadRequest(method: "GET", path: "/", body: nil)
            return message(
                request.method,
                filled(request.path, number, user),
                user,
                body: request.body.map { filled($0, number, user) }
            )
        }
    }

    /// Records how a request ended.
    ///
    /// - Returns: The reason of a failure, or `nil` if it succeeded.
    mutating func end(_ number: Int, step: Int?, status: Int, body: [UInt8]) -> String? {
        var user = users[number, default: User()]
        defer { users[number] = user }
        let text = ResponseText(body)
        var failure: String?
        if !(200..<300).contains(status) {
            failure = "\(status) " + (text.string(named: "code") ?? "without a code")
        }
        switch kind(of: step) {
        case .guest:
            let token = failure == nil ? text.string(named: "accessToken") : nil
            user.session = token.map { .open(token: $0) } ?? .none
            if failure == nil, token == nil { failure = "\(status) without a session" }
        case .list:
            user.isListing = false
            guard failure == nil else { break }
            user.cursor = text.string(named: "nextCursor")
            user.post = text.string(named: "id") ?? user.post
        case .push:
            user.isPushing = false
            if failure == nil, text.string(named: "status") == "refused" {
                failure = "refused " + (text.string(named: "code") ?? "without a code")
            }
        case .live, .function, .request: break
        }
        return failure
    }

    /// Records that a request got no response.
    mutating func fail(_ number: Int, step: Int?) {
        switch kind(of: step) {
        case .guest: users[number, default: User()].session = .none
        case .list: users[number, default: User()].isListing = false
        case .push: users[number, default: User()].isPushing = false
        case .live, .function, .request: break
        }
    }

    // MARK: - Messages

    private func device(_ number: Int) -> String { "load-\(run)-user-\(number)" }

    private mutating func newID() -> String {
        Identifier(at: start, using: &random).description
    }

    private mutating func message(
        _ method: String,
        _ path: String,
        _ user: User,
        body: String? = nil
    ) -> Message {
        var message = Message(method: method, path: path, body: body)
        if case .open(let token) = user.session { message.token = token }
        if method == "POST" { message.key = newID() }
        return message
    }

    private mutating func push(_ number: Int, _ user: User, isLike: Bool) -> Message {
        let fields =
            isLike
            ? #"{"post":"\#(user.post ?? "none")"}"#
            : #"{"text":"Post \#(user.sequence) of user \#(number)"}"#
        let collection = isLike ? plan.likes : plan.collection
        let body = Self.push(
            device: device(number),
            operations: [
                Self.create(newID(), user.sequence, in: collection, newID(), fields: fields)
            ]
        )
        var message = message("POST", "/v1/sync/push", user, body: body)
        message.key = nil
        return message
    }

    /// Returns the operation that creates a record, in JSON.
    static func create(
        _ id: String,
        _ sequence: Int64,
        in collection: String,
        _ record: String,
        fields: String
    ) -> String {
        """
        {"id":"\(id)","sequence":\(sequence),"lane":"\(collection)","mutator":"record.create",\
        "arguments":{"collection":"\(collection)","id":"\(record)","fields":\(fields)}}
        """
    }

    /// Returns the body of a push.
    static func push(device: String, operations: [String]) -> String {
        #"{"device":"\#(device)","operations":[\#(operations.joined(separator: ","))]}"#
    }

    private mutating func filled(_ text: String, _ number: Int, _ user: User) -> String {
        guard text.contains("{{") else { return text }
        return text.replacing("{{id}}", with: newID())
            .replacing("{{user}}", with: "\(number)")
            .replacing("{{post}}", with: user.post ?? "none")
    }
}

/// Finds members in a response without decoding all of it, because the generator shares the machine
/// with the server.
struct ResponseText: Sendable {
    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Returns the string value of the first member with the name, or `nil` if there is none.
    ///
    /// Only values without escape sequences are found, such as ids, codes and tokens. A text that
    /// contains the name is no member, because its quotation marks are escaped.
    func string(named name: String) -> String? {
        let pattern = Array("\"\(name)\"".utf8)
        var index = 0
        while index + pattern.count <= bytes.count {
            guard bytes[index] == pattern[0],
                bytes[index..<index + pattern.count].elementsEqual(pattern)
            else {
                index += 1
                continue
            }
            index += pattern.count
            if let value = value(after: index) { return value }
        }
        return nil
    }

    private func value(after start: Int) -> String? {
        var rest = bytes[start...].drop(while: Self.isSpace)
        guard rest.popFirst() == UInt8(ascii: ":") else { return nil }
        rest = rest.drop(while: Self.isSpace)
        guard rest.popFirst() == UInt8(ascii: "\""),
            let end = rest.firstIndex(of: UInt8(ascii: "\"")),
            !rest[..<end].contains(UInt8(ascii: "\\"))
        else { return nil }
        return String(decoding: rest[..<end], as: UTF8.self)
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d
    }
}
