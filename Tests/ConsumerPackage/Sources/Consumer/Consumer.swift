import Sanguine

/// Represents an app.
@main
struct Consumer {
    static func main() {
        print("Linked.")
    }
}
