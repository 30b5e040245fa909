"""The names of the classes of Caltech101 in German and French."""

_NAMES = """
Faces|Gesichter|visages
Faces_easy|Gesicht von vorn|visage de face
Leopards|Leoparden|léopards
Motorbikes|Motorräder|motos
accordion|Akkordeon|accordéon
airplanes|Flugzeuge|avions
anchor|Anker|ancre
ant|Ameise|fourmi
barrel|Fass|tonneau
bass|Barsch|bar (poisson)
beaver|Biber|castor
binocular|Fernglas|jumelles
bonsai|Bonsai|bonsaï
brain|Gehirn|cerveau
brontosaurus|Brontosaurus|brontosaure
buddha|Buddha|bouddha
butterfly|Schmetterling|papillon
camera|Kamera|appareil photo
cannon|Kanone|canon
car_side|Auto von der Seite|voiture de côté
ceiling_fan|Deckenventilator|ventilateur de plafond
cellphone|Handy|téléphone portable
chair|Stuhl|chaise
chandelier|Kronleuchter|lustre
cougar_body|Körper eines Pumas|corps de puma
cougar_face|Gesicht eines Pumas|tête de puma
crab|Krabbe|crabe
crayfish|Flusskrebs|écrevisse
crocodile|Krokodil|crocodile
crocodile_head|Kopf eines Krokodils|tête de crocodile
cup|Tasse|tasse
dalmatian|Dalmatiner|dalmatien
dollar_bill|Dollarschein|billet d'un dollar
dolphin|Delfin|dauphin
dragonfly|Libelle|libellule
electric_guitar|E-Gitarre|guitare électrique
elephant|Elefant|éléphant
emu|Emu|émeu
euphonium|Euphonium|euphonium
ewer|Wasserkrug|aiguière
ferry|Fähre|ferry
flamingo|Flamingo|flamant rose
flamingo_head|Kopf eines Flamingos|tête de flamant rose
garfield|Garfield|Garfield
gerenuk|Giraffengazelle|gazelle de Waller
gramophone|Grammophon|gramophone
grand_piano|Konzertflügel|piano à queue
hawksbill|Karettschildkröte|tortue imbriquée
headphone|Kopfhörer|casque audio
hedgehog|Igel|hérisson
helicopter|Hubschrauber|hélicoptère
ibis|Ibis|ibis
inline_skate|Inlineskate|patin en ligne
joshua_tree|Josuabaum|arbre de Josué
kangaroo|Känguru|kangourou
ketch|Ketsch|ketch
lamp|Lampe|lampe
laptop|Laptop|ordinateur portable
llama|Lama|lama
lobster|Hummer|homard
lotus|Lotusblume|lotus
mandolin|Mandoline|mandoline
mayfly|Eintagsfliege|éphémère (insecte)
menorah|Menora|menorah
metronome|Metronom|métronome
minaret|Minarett|minaret
nautilus|Nautilus|nautile
octopus|Krake|pieuvre
okapi|Okapi|okapi
pagoda|Pagode|pagode
panda|Panda|panda
pigeon|Taube|pigeon
pizza|Pizza|pizza
platypus|Schnabeltier|ornithorynque
pyramid|Pyramide|pyramide
revolver|Revolver|revolver
rhino|Nashorn|rhinocéros
rooster|Hahn|coq
saxophone|Saxofon|saxophone
schooner|Schoner|goélette
scissors|Schere|ciseaux
scorpion|Skorpion|scorpion
sea_horse|Seepferdchen|hippocampe
snoopy|Snoopy|Snoopy
soccer_ball|Fußball|ballon de football
stapler|Hefter|agrafeuse
starfish|Seestern|étoile de mer
stegosaurus|Stegosaurus|stégosaure
stop_sign|Stoppschild|panneau stop
strawberry|Erdbeere|fraise
sunflower|Sonnenblume|tournesol
tick|Zecke|tique
trilobite|Trilobit|trilobite
umbrella|Regenschirm|parapluie
watch|Armbanduhr|montre
water_lilly|Seerose|nénuphar
wheelchair|Rollstuhl|fauteuil roulant
wild_cat|Wildkatze|chat sauvage
windsor_chair|Windsor-Stuhl|chaise Windsor
wrench|Schraubenschlüssel|clé à molette
yin_yang|Yin und Yang|yin et yang
"""

_LINES = [line.split("|") for line in _NAMES.strip().splitlines()]
GERMAN = {name: german for name, german, _ in _LINES}
FRENCH = {name: french for name, _, french in _LINES}
