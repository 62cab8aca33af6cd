#if !TestKit
#error(
    """
    SanguineAuthority and SanguineTesting need the trait 'TestKit' of the package 'sanguine', or \
    'Server', which has it: .package(url: "…/sanguine", from: "…", traits: ["TestKit"])
    """
)
#endif
