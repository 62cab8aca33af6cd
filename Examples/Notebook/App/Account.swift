import Sanguine

/// Signing in and out: the token is the app's, and everything else the client's.
struct Account {
    let client: SanguineClient
    let tokens: Tokens

    /// What this user has left waiting is shown again, and sent.
    func signIn(_ user: String, _ password: String) async throws {
        // First the sign-out: nothing of one user is sent with the token of another.
        if client.userID != nil { await signOut() }
        try client.signIn(as: try await tokens.signIn(user, password))
    }

    /// Leaves nothing on the device but what waits for the user's return.
    func signOut() async {
        await tokens.signOut()
        await client.signOut()
    }
}
